"""Throughput of a workload beside its physical limit, from the same run."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from engine.trace.events import Record
from engine.trace.metrics import FORMULAS as METRICS
from engine.trace.recorder import ListSink, Sink
from engine.trace.timed_steps import TimedStep, timed_steps
from engine.workload.drive import FAIR, MakeEngine, Outcome, Progress, drive, silent
from engine.workload.items import Item, Workload
from engine.workload.limits import Machine, ModelShape, offline_floor
from engine.workload.tally import tally

LATENCIES = ("ttft", "tpot", "itl", "e2el")  # of the recorded pass
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
    **{f"{rank}_{name}_ms": METRICS[f"{name}_ms"] for name in LATENCIES for rank in ("median", "p99")},
}
WARM_UP_TOKENS = 8


@dataclass(frozen=True, slots=True)
class Measured:
    """The figures of a workload, and its last pass, which was recorded: what it produced and the steps it took."""

    results: dict
    recorded: Outcome
    steps: list[TimedStep]


def throughput(
    make_engine: MakeEngine,
    workload: Workload,
    repeats: int = 2,
    progress: Progress = silent,
    sinks: Sequence[Sink] = (),
    concurrency: int | None = None,
) -> Measured:
    """Run ``workload`` and report the fastest of ``repeats``; every duration is in ``repeats_s``.

    The last pass is also recorded in this process, the others only where ``sinks`` ask for it. Latencies are of it.

    Args:
        concurrency: closed loop, as of ``drive``.
    """
    warm_up = drive(make_engine(FAIR, ()), [shorten(item) for item in workload.items], "warm-up", progress)
    outcomes, sink = [], ListSink()
    for repeat in range(1, repeats + 1):
        engine = make_engine(FAIR, (*sinks, sink) if repeat == repeats else sinks)
        what = f"{workload.name}, pass {repeat} of {repeats}"
        outcomes.append(drive(engine, workload.items, what, progress, concurrency))
    best = min(outcomes, key=lambda outcome: outcome.seconds)
    records = sink.records
    times = {"repeats_s": [outcome.seconds for outcome in outcomes], "warm_up_s": warm_up.seconds}
    results = _rates(workload.items, best) | latencies(records) | times
    return Measured(results, outcomes[-1], timed_steps(records))


def latencies(records: Sequence[Record]) -> dict[str, float]:
    """The latencies of a run by ``vllm bench``'s names: mean, median, std, p90 and p99 of TTFT, TPOT, ITL and E2EL."""
    return {name: value for name, value in tally(records).items() if name.endswith("_ms")}


def beside_limit(result: dict, workload: Workload, shape: ModelShape, machine: Machine, rows: int) -> dict:
    """``result`` of ``throughput`` with the limit of this machine and the fraction reached."""
    lengths = [(len(item.prompt_ids), item.output_length) for item in workload.items]
    floor = offline_floor(shape, lengths, machine, rows)
    limit = floor["output_throughput"]
    return result | {"limit": limit, "of_limit": result["output_throughput"] / limit, "floor": floor}


def shorten(item: Item) -> Item:
    """The same request with an answer that is just long enough to warm everything up."""
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
