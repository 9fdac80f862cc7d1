"""A mixed step: many rows decode while one prompt is prefilled beside them, chunk by chunk. Its floor and its time.

The chunk and the decodes share one reading of the weights, which is why a mixed step can cost less than both apart.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from engine.trace.recorder import ListSink
from engine.trace.timed_steps import TimedStep, timed_steps
from engine.workload.drive import FAIR, MakeEngine, Progress, drive, silent
from engine.workload.items import Item
from engine.workload.lengths import fixed
from engine.workload.limits import Floor, Machine, ModelShape, decode_floor, prefill_flop

FORMULAS: dict[str, str] = {
    "decodes": "rows that decode in the step",
    "chunk": "prompt tokens computed beside them",
    "context": "tokens per decoding row, median over the steps",
    "ms_per_step": "median over such steps: device time, and its idle time before the step",
    "floor_ms": "weights once, KV of all rows once, FLOP of the union, at the ceilings of this run",
    "of_floor": "floor_ms / ms_per_step",
    "over_floor": "ms_per_step / floor_ms",
}


def mixed_floor(shape: ModelShape, decodes: int, context: float, chunk: int, start: float, machine: Machine) -> Floor:
    """Floor of a step of ``decodes`` rows at ``context`` and one chunk of ``chunk`` tokens behind ``start`` others."""
    alone = decode_floor(shape, decodes, context, machine)
    products = 2 * shape.layer_weights * (decodes + chunk) + 2 * shape.head_weights * (decodes + 1)
    scores = prefill_flop(shape, chunk, start) - 2 * shape.layer_weights * chunk - 2 * shape.head_weights
    read = start * shape.kv_bytes / machine.bandwidth
    return Floor(
        products=max(shape.streamed_bytes / machine.bandwidth, products / machine.flops),
        attention=alone.attention + max(read, scores / machine.flops),
        logits=alone.logits,
    )


def mixed_step(
    make_engine: MakeEngine,
    shape: ModelShape,
    machine: Machine,
    decodes: int,
    chunk: int,
    context: int,
    progress: Progress = silent,
) -> dict:
    """Time of a step of ``decodes`` rows and a ``chunk``, from the steps of one run that were such.

    Args:
        make_engine: of a worker whose token budget is ``decodes + chunk`` and that has a row more than ``decodes``.
        context: prompt tokens of the rows that decode.

    Raises:
        ValueError: no step was such; the rows ended before the long prompt began, or memory was too small.
    """
    sink = ListSink()
    items = mixed_items(decodes, chunk, context, shape.vocab)
    drive(make_engine(FAIR, (sink,)), items, f"{decodes} decodes and a chunk of {chunk}", progress)
    found = [step for step in timed_steps(sink.records) if _is_such(step, decodes, chunk)]
    if not found:
        raise ValueError(f"no step of {decodes} decodes and a chunk of {chunk}; more blocks are needed")
    return _entry(found, decodes, chunk, shape, machine)


def mixed_items(decodes: int, chunk: int, context: int, vocab: int) -> list[Item]:
    """The run: rows that go on decoding until the last prompt, of twelve chunks, is done."""
    ramp = decodes * context // chunk  # steps until all of them decode
    rows = fixed(decodes, 0, context, ramp + 40).items
    long = fixed(1, 0, 12 * chunk, 1).items
    return [replace(item, prompt_ids=[token % vocab for token in item.prompt_ids]) for item in rows + long]


def _is_such(step: TimedStep, decodes: int, chunk: int) -> bool:
    facts = step.facts
    return facts.decode_rows == decodes and facts.chunks == 1 and facts.prefill_tokens == chunk


def _entry(steps: Sequence[TimedStep], decodes: int, chunk: int, shape: ModelShape, machine: Machine) -> dict:
    ms = float(np.median([step.busy_s + step.idle_s for step in steps])) * 1e3
    context = float(np.median([step.facts.context for step in steps])) / decodes - 1
    start = chunk * (len(steps) - 1) / 2  # the chunks are those of one prompt, in order
    floor_ms = mixed_floor(shape, decodes, context, chunk, start, machine).total * 1e3
    return {
        "decodes": decodes,
        "chunk": chunk,
        "context": round(context, 1),
        "steps": len(steps),
        "ms_per_step": ms,
        "floor_ms": floor_ms,
        "of_floor": floor_ms / ms,
        "over_floor": ms / floor_ms,
    }
