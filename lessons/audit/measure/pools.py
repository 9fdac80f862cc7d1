"""Runs in which memory decides: a pool below demand under both policies, a shared prefix, and sizes of a block."""

import statistics
from collections import Counter

from engine.trace.events import Reason, Step
from engine.trace.metrics import request_table, step_table, summary
from engine.trace.timeline import Timeline
from engine.workload.drive import Progress
from engine.workload.items import Item
from lessons.audit.measure.setup import BLOCK_SIZE, ROWS, bundled, prompts, recorded

PROMPT, OUTPUT, REQUESTS = 48, 96, 12  # tokens, tokens, of the run under pressure
POOLS = (0.5, 0.7, 1.0, 1.3)  # of the blocks that all rows need at once
SHARED, OWN, ANSWER = 192, 16, 8  # tokens: system prompt, question, answer
SIZES = (8, 16, 64, 128)


def pressure(device: str, progress: Progress) -> dict:
    """Both capacity policies at each pool size; greedy, so that the answers can be compared."""
    demand = ROWS * -(-(PROMPT + OUTPUT) // BLOCK_SIZE)
    runs, answers = [], []
    with bundled(device, progress) as model:
        items = [Item(prompt, OUTPUT, OUTPUT) for prompt in prompts(REQUESTS, PROMPT, model.limits.vocab_size)]
        for share in POOLS:
            for capacity in ("max-utilization", "guaranteed-no-evict"):
                limits = {"pool_blocks": round(share * demand), "capacity": capacity, "prefix_cache": False}
                outcome, timeline = recorded(model, items, limits, f"{capacity}, pool {share:g}", progress)
                runs.append({"share": share, "capacity": capacity, "demand": demand} | _facts(timeline))
                answers.append(outcome.outputs)
    return {"runs": runs, "identical": all(answer == answers[0] for answer in answers)}


def _facts(timeline: Timeline) -> dict:
    """What the records of a run say about memory, steps and waiting."""
    whole, steps = summary(timeline), step_table(timeline)
    heads = Counter(Reason(r.event.head_reason).name for r in timeline if isinstance(r.event, Step))
    pool = timeline.info["config"]["scheduling"]["pool_blocks"]
    used = [pool - step["free_blocks"] - step["reclaimable_blocks"] for step in steps]
    names = ("output_throughput", "preemptions", "recomputed_tokens", "total_output_tokens", "completed", "p99_itl_ms")
    return {name: whole[name] for name in names} | {
        "pool_blocks": pool,
        "peak_blocks": max(used),
        "mean_blocks": sum(used) / len(used),
        "steps": len(steps),
        "waiting_steps": sum(step["waiting"] > 0 for step in steps),
        "reasons": {name.lower(): count for name, count in heads.items() if name != "NONE"},
        "kinds": _kinds(steps),
    }


def _kinds(steps: list[dict]) -> dict[str, int]:
    """Steps by what they held."""
    both = sum(step["prefill"] > 0 and step["decode"] > 0 for step in steps)
    prefill = sum(step["prefill"] > 0 for step in steps) - both
    return {"mixed": both, "prefill": prefill, "decode": len(steps) - both - prefill}


def prefix(device: str, progress: Progress) -> dict:
    """Requests one after the other that share a long beginning, with the prefix cache and without."""
    with bundled(device, progress) as model:
        vocab = model.limits.vocab_size
        beginning = prompts(1, SHARED, vocab)[0]
        asked = [beginning + question for question in prompts(8, OWN, vocab, seed=1)]
        items = [Item(prompt, ANSWER, ANSWER) for prompt in asked]
        found = {}
        for name, cached in (("off", False), ("on", True)):
            limits = {"prefix_cache": cached, "max_num_seqs": 1}
            recorded(model, items[:1], limits, "warm-up", progress)
            _, timeline = recorded(model, items, limits, f"prefix cache {name}", progress)
            facts, waits = summary(timeline), [_prefill_s(request) for request in request_table(timeline)]
            found[name] = {"cached_tokens": facts["cached_tokens"], "prefill_s": statistics.median(waits)}
    return found | {"prompt_tokens": sum(map(len, asked)), "block_size": BLOCK_SIZE, "shared": SHARED}


def _prefill_s(request: dict) -> float:
    return request["first_token_s"] - request["admitted_s"]


def block_sizes(device: str, progress: Progress) -> dict:
    """Mixed lengths with blocks of each size: slots of held blocks that stay empty, and what a run took."""
    found = []
    with bundled(device, progress) as model:
        drawn = prompts(16, 40, model.limits.vocab_size)
        items = [Item(prompt[: 8 + 2 * i], 24 + 3 * i, 24 + 3 * i) for i, prompt in enumerate(drawn)]
        slots = model.config.scheduling.pool_blocks * BLOCK_SIZE
        for size in SIZES:
            limits = {"block_size": size, "pool_blocks": slots // size, "prefix_cache": False}
            recorded(model, items[:2], limits, "warm-up", progress)
            outcome, _ = recorded(model, items, limits, f"blocks of {size}", progress)
            tokens = [len(item.prompt_ids) + item.output_length for item in items]
            held = sum(-(-count // size) * size for count in tokens)
            entries = max(-(-count // size) for count in tokens)
            waste = 1 - sum(tokens) / held
            found.append({"block_size": size, "waste": waste, "table": entries, "seconds": outcome.seconds})
    return {"sizes": found}
