"""Throughput of a workload and latency of a step, each beside its physical limit, from the same run."""

from collections.abc import Sequence
from dataclasses import replace
from statistics import median

from engine.trace.gain import StepFacts, step_facts
from engine.trace.recorder import ListSink, Sink
from engine.workload.drive import FAIR, MakeEngine, Outcome, Progress, drive, silent
from engine.workload.items import Item, Workload
from engine.workload.lengths import fixed
from engine.workload.limits import Machine, ModelShape, decode_floor, offline_floor

FORMULAS: dict[str, str] = {
    "completed": "requests whose answer ended",
    "duration_s": "first submit to last token on the host; warm-up excluded",
    "warm_up_s": "a run of the same prompts with short answers, before the clock starts",
    "total_input_tokens": "sum of prompt lengths",
    "total_output_tokens": "tokens produced (not: asked for)",
    "cached_tokens": "prompt tokens that a prefix hit saved; 0 in a fair run",
    "request_throughput": "completed / duration",
    "output_throughput": "total_output_tokens / duration",
    "total_token_throughput": "(total_input_tokens + total_output_tokens) / duration",
    "limit": "tokens/s if every step took its component floor at the bandwidth and matmul peak of this run",
    "of_limit": "output_throughput / limit",
}
WARM_UP_TOKENS = 8


def throughput(
    make_engine: MakeEngine,
    workload: Workload,
    repeats: int = 2,
    progress: Progress = silent,
    sinks: Sequence[Sink] = (),
) -> dict:
    """Run ``workload`` and report the fastest of ``repeats``; every duration is in ``repeats_s``."""
    short = [_shorten(item) for item in workload.items]
    warm_up = drive(make_engine(FAIR, ()), short, "warm-up", progress)
    outcomes = []
    for repeat in range(repeats):
        what = f"{workload.name}, pass {repeat + 1} of {repeats}"
        outcomes.append(drive(make_engine(FAIR, sinks), workload.items, what, progress))
    best = min(outcomes, key=lambda outcome: outcome.seconds)
    return _rates(workload.items, best) | {
        "repeats_s": [outcome.seconds for outcome in outcomes],
        "warm_up_s": warm_up.seconds,
    }


def beside_limit(result: dict, workload: Workload, shape: ModelShape, machine: Machine, rows: int) -> dict:
    """``result`` of ``throughput`` with the limit of this machine and the fraction reached."""
    lengths = [(len(item.prompt_ids), item.output_length) for item in workload.items]
    floor = offline_floor(shape, lengths, machine, rows)
    limit = floor["output_throughput"]
    return result | {"limit": limit, "of_limit": result["output_throughput"] / limit, "floor": floor}


def latency(
    make_engine: MakeEngine,
    shape: ModelShape,
    machine: Machine,
    batches: Sequence[int],
    lengths: tuple[int, int] = (128, 128),
    progress: Progress = silent,
) -> list[dict]:
    """One entry for each number of rows: milliseconds of a full decode step, bytes/s, and the fraction of the floor.

    ``rows`` requests of ``lengths`` = (prompt, output) tokens run at once; steps with a prefill chunk are left out.
    """
    entries = []
    for rows in batches:
        items = fixed(rows, 0, *lengths).items
        vocab = shape.vocab
        items = [replace(item, prompt_ids=[token % vocab for token in item.prompt_ids]) for item in items]
        drive(make_engine(FAIR, ()), [_shorten(item) for item in items], f"{rows} rows, warm-up", progress)
        sink = ListSink()
        outcome = drive(make_engine(FAIR, (sink,)), items, f"{rows} rows", progress)
        entries.append(_step_entry(rows, step_facts(sink.records), outcome, shape, machine))
    return entries


def _shorten(item: Item) -> Item:
    tokens = min(WARM_UP_TOKENS, item.max_tokens)
    return replace(item, max_tokens=tokens, forced_output_length=tokens, arrival_s=0.0)


def _rates(items: Sequence[Item], outcome: Outcome) -> dict:
    prompts, tokens, seconds = sum(len(item.prompt_ids) for item in items), outcome.tokens, outcome.seconds
    return {
        "completed": len(outcome.outputs),
        "duration_s": seconds,
        "total_input_tokens": prompts,
        "total_output_tokens": tokens,
        "cached_tokens": outcome.cached_tokens,
        "request_throughput": len(outcome.outputs) / seconds,
        "output_throughput": tokens / seconds,
        "total_token_throughput": (prompts + tokens) / seconds,
    }


def _step_entry(rows: int, steps: Sequence[StepFacts], outcome: Outcome, shape: ModelShape, machine: Machine) -> dict:
    full = [facts for facts in steps if facts.decode_rows == rows and not facts.chunks]
    seconds = median(facts.seconds for facts in full)
    context = sum(facts.context for facts in full) / (len(full) * rows)
    floor = decode_floor(shape, rows, context, machine).total
    moved = shape.streamed_bytes + rows * (context + 1) * shape.kv_bytes
    return {
        "rows": rows,
        "context": round(context, 1),
        "ms_per_step": seconds * 1e3,
        "tokens_per_s": rows / seconds,
        "gb_s": moved / seconds / 1e9,
        "floor_ms": floor * 1e3,
        "of_floor": floor / seconds,
        "output_throughput": outcome.tokens / outcome.seconds,
    }
