"""Milliseconds of a decode step against the number of rows, beside its floor: with CUDA graphs and without."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace

import numpy as np

from engine.trace.recorder import ListSink
from engine.trace.timed_steps import TimedStep, timed_steps
from engine.workload.bench import shorten
from engine.workload.drive import FAIR, MakeEngine, Outcome, Progress, drive, silent
from engine.workload.items import Item
from engine.workload.lengths import fixed
from engine.workload.limits import Machine, ModelShape, decode_floor

FORMULAS: dict[str, str] = {
    "context": "tokens per row in the middle of the run",
    "ms_per_step": "median of decode-only steps: device time, and its idle time before the step",
    "eager_ms": "the same without CUDA graphs",
    "gb_s": "(streamed weights + KV read and written) / ms_per_step",
    "of_floor": "component floor at the ceilings of this run / ms_per_step",
    "idle_us": "device idle before a step, median",
    "output_throughput": "tokens of all answers / wall time, prefill included",
}
SETTLE = 2  # decode steps left out: the first ones follow the prefill


def latency(
    make_engine: MakeEngine,
    shape: ModelShape,
    machine: Machine,
    batches: Sequence[int],
    lengths: tuple[int, int],
    eagerly: Callable[[], AbstractContextManager] | None = None,
    progress: Progress = silent,
) -> list[dict]:
    """One entry for each number of rows.

    Args:
        lengths: (prompt, output) tokens of the ``rows`` requests that run at once.
        eagerly: a context in which no step uses a graph; None: there are none.
    """
    entries = []
    for rows in batches:
        items = _items(rows, lengths, shape.vocab)
        entry = _entry(rows, *_decode_steps(make_engine, items, f"{rows} rows", progress), shape, machine)
        if eagerly is not None:
            with eagerly():
                steps, _ = _decode_steps(make_engine, items, f"{rows} rows, eager", progress)
            entry["eager_ms"] = _milliseconds(steps)
        entries.append(entry)
    return entries


def _items(rows: int, lengths: tuple[int, int], vocab: int) -> list[Item]:
    items = fixed(rows, 0, *lengths).items
    return [replace(item, prompt_ids=[token % vocab for token in item.prompt_ids]) for item in items]


def _decode_steps(
    make_engine: MakeEngine, items: list[Item], what: str, progress: Progress
) -> tuple[list[TimedStep], Outcome]:
    """The steps of a run in which all rows decoded and nothing else, after a run that warms up.

    Raises:
        ValueError: there was none.
    """
    drive(make_engine(FAIR, ()), [shorten(item) for item in items], f"{what}, warm-up", progress)
    sink = ListSink()
    outcome = drive(make_engine(FAIR, (sink,)), items, what, progress)
    full = [step for step in timed_steps(sink.records) if step.facts.decode_rows == len(items)]
    settled = [step for step in full if not step.facts.chunks][SETTLE:]
    if not settled:
        raise ValueError(f"{what}: no step in which all of them decode; more output tokens or blocks are needed")
    return settled, outcome


def _milliseconds(steps: Sequence[TimedStep]) -> float:
    return float(np.median([step.busy_s + step.idle_s for step in steps])) * 1e3


def _entry(rows: int, steps: Sequence[TimedStep], outcome: Outcome, shape: ModelShape, machine: Machine) -> dict:
    ms = _milliseconds(steps)
    context = sum(step.facts.context for step in steps) / (len(steps) * rows) - 1  # without the new token
    floor_ms = decode_floor(shape, rows, context, machine).total * 1e3
    moved = shape.streamed_bytes + rows * (context + 1) * shape.kv_bytes
    return {
        "rows": rows,
        "context": round(context, 1),
        "ms_per_step": ms,
        "eager_ms": None,
        "tokens_per_s": rows / ms * 1e3,
        "gb_s": moved / ms / 1e6,
        "floor_ms": floor_ms,
        "of_floor": floor_ms / ms,
        "idle_us": float(np.median([step.idle_s for step in steps])) * 1e6,
        "output_throughput": outcome.tokens / outcome.seconds,
    }
