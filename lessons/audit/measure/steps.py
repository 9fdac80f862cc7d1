"""How long steps take: against the number of rows, and with a long prompt among decoding requests."""

import statistics

from engine.trace.events import Step
from engine.trace.metrics import request_table, step_table
from engine.workload.drive import Progress
from engine.workload.items import Item
from engine.workload.latency import latency
from engine.workload.limits import Machine, shape_of
from lessons.audit.measure.setup import bundled, prompts, recorded

BATCHES = {"cpu": (1, 8), "cuda": (1, 8, 64)}
BUDGETS = (32, 64, 128, 512)
LONG, CHATS, ANSWER = 448, 4, 120  # tokens of the long prompt; requests that decode meanwhile, and their tokens
NO_FLOOR = Machine(1e12, 1e12)  # the sweep's own times are used, never its floors


def sweep(device: str, progress: Progress) -> dict:
    """Milliseconds of a decode step over a number of rows, and the bytes that it must read."""
    batches = BATCHES[device]
    limits = {"max_num_seqs": max(batches), "token_budget": 64 * max(batches), "prefix_cache": False}
    with bundled(device, progress, pool_blocks=max(batches) * 8, **limits) as model:
        shape = shape_of(model.worker.spec)
        entries = latency(model.new_engine, shape, NO_FLOOR, batches, (32, 32), None, progress)
    kept = ("rows", "context", "ms_per_step", "tokens_per_s")
    return {
        "entries": [{name: entry[name] for name in kept} for entry in entries],
        "streamed_bytes": shape.streamed_bytes,
        "kv_bytes": shape.kv_bytes,
    }


def chunks(device: str, progress: Progress) -> dict:
    """A prompt of 448 tokens arrives while four requests decode: whole, and cut to several token budgets."""
    found = []
    with bundled(device, progress, prefix_cache=False) as model:
        vocab = model.limits.vocab_size
        items = [Item(prompt, ANSWER, ANSWER) for prompt in prompts(CHATS, 16, vocab)]
        recorded(model, items, {"token_budget": 512}, "warm-up", progress)
        alone, _ = recorded(model, items, {"token_budget": 512}, "without the long prompt", progress)
        late = Item(prompts(1, LONG, vocab, seed=1)[0], 4, 4, arrival_s=0.3 * alone.seconds)
        for budget in BUDGETS:
            limits = {"token_budget": budget}
            _, timeline = recorded(model, [*items, late], limits, f"budget {budget}", progress)
            found.append({"budget": budget, "chunked": budget < LONG} | _facts(timeline))
    return {"budgets": found, "long": LONG, "chats": CHATS}


def _facts(timeline: object) -> dict:
    """First token of the long prompt, the longest and the usual step, and steps of both kinds."""
    steps = [step for step in step_table(timeline) if step["ms"] is not None]
    longest = max(request_table(timeline), key=lambda request: request["prompt_tokens"])
    decoding = [step["ms"] for step in steps if step["decode"] and not step["prefill"]]
    disturbed = [step["ms"] for step in steps if step["decode"] and step["prefill"]]
    return {
        "first_token_ms": longest["ttft_ms"],
        "usual_step_ms": statistics.median(decoding),
        "longest_step_ms": max(disturbed, default=max(decoding)),
        "mixed_steps": len(disturbed),
        "steps": len(steps),
        "most_tokens": max(record.event.used for record in timeline if isinstance(record.event, Step)),
    }
