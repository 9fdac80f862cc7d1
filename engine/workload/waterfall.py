"""Where the time above the limit goes: one recorded pass, line by line.

Every line is a difference of sums over the steps, and together they are the wall time less the floor: nothing is left
over, and nothing is counted twice. A line of ``s`` seconds costs ``limit * s / wall`` tokens/s, so that the lines also
add up to the limit less the throughput.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from engine.trace.timed_steps import TimedStep
from engine.workload.limits import Floor, Machine, ModelShape, decode_floor

FORMULAS: dict[str, str] = {
    "rows not full": "floor of the steps as they ran - floor of the ideal ones",
    "prefill": "steps with a prompt chunk - floor of their decode rows - floor of all prompts - their padding",
    "padding": "least time of the padded tokens: products and logits at the peaks of this run",
    "decode": "steps without a chunk - their floor - their padding",
    "attention": "decode steps x share of attention kernels - floor of reading keys and values",
    "products": "decode steps x share of products - floor of reading the weights - padding",
    "sampling": "decode steps x share of sampling kernels - floor of writing and reading the logits - padding",
    "other kernels": "decode steps x share of norms, rotation, metadata and copies",
    "gaps in a step": "decode steps x share of time between the kernels of a step",
    "launch gaps": "device idle between steps, by its own clock",
    "host": "wall - steps - launch gaps: first schedule, last result, submitting",
}
CLASSES = ("attention", "products", "sampling", "other kernels", "gaps in a step")  # of a kernel profile


@dataclass(slots=True)
class _Sums:
    """Seconds over a set of steps."""

    busy: float = 0.0
    attention: float = 0.0
    products: float = 0.0
    logits: float = 0.0
    padded_products: float = 0.0
    padded_logits: float = 0.0

    @property
    def floor(self) -> float:
        return self.attention + self.products + self.logits

    @property
    def padded(self) -> float:
        return self.padded_products + self.padded_logits


def waterfall(
    steps: Sequence[TimedStep],
    wall_s: float,
    floor: Mapping[str, float],
    shape: ModelShape,
    machine: Machine,
    profiled: Mapping[str, float] | None = None,
) -> dict:
    """The losses of a run.

    Args:
        steps: all of one run.
        floor: of the workload (``limits.offline_floor``).
        profiled: share of ``CLASSES`` in a decode step, its rows and context (``step_profile``); None: decode stays
            one line.

    Returns:
        ``wall_s``, ``floor_s``, ``limit``, ``output_throughput``, ``profiled`` and ``lines`` (name, seconds,
        tokens_per_s, formula).
    """
    mixed, pure = (_sums([s for s in steps if bool(s.facts.chunks) == kind], shape, machine) for kind in (True, False))
    idle = sum(step.idle_s for step in steps)
    seconds = {
        "rows not full": mixed.floor + pure.floor - floor["decode_s"],
        "prefill": mixed.busy - mixed.floor - floor["prefill_s"] - mixed.padded,
        "padding": mixed.padded + pure.padded,
        **_decode(pure, profiled),
        "launch gaps": idle,
        "host": wall_s - mixed.busy - pure.busy - idle,
    }
    limit = floor["output_throughput"]
    return {
        "wall_s": wall_s,
        "floor_s": floor["total_s"],
        "limit": limit,
        "output_throughput": limit * floor["total_s"] / wall_s,
        "profiled": profiled,
        "lines": [
            {"name": name, "seconds": lost, "tokens_per_s": limit * lost / wall_s, "formula": FORMULAS[name]}
            for name, lost in seconds.items()
        ],
    }


def typical_decode(steps: Sequence[TimedStep]) -> tuple[int, int] | None:
    """Rows and context of the decode step that stands for all of a run: means over decode time. None without one."""
    pure = [step for step in steps if step.facts.decode_rows and not step.facts.chunks]
    busy = sum(step.busy_s for step in pure)
    if not busy:
        return None
    rows = sum(step.busy_s * step.facts.decode_rows for step in pure) / busy
    context = sum(step.busy_s * step.facts.context for step in pure) / busy
    return max(1, round(rows)), max(1, round(context / rows))


def _decode(pure: _Sums, shares: Mapping[str, float] | None) -> dict[str, float]:
    if shares is None:
        return {"decode": pure.busy - pure.floor - pure.padded}
    least = {
        "attention": pure.attention,
        "products": pure.products + pure.padded_products,
        "sampling": pure.logits + pure.padded_logits,
    }
    return {name: pure.busy * shares[name] - least.get(name, 0.0) for name in CLASSES}


def _sums(steps: Sequence[TimedStep], shape: ModelShape, machine: Machine) -> _Sums:
    total = _Sums()
    for step in steps:
        least, padded = _floor(step, step.facts.decode_rows, shape, machine), _padding(step, shape, machine)
        total.busy += step.busy_s
        total.attention += least.attention
        total.products += least.products
        total.logits += least.logits
        total.padded_products += padded.products
        total.padded_logits += padded.logits
    return total


def _floor(step: TimedStep, rows: int, shape: ModelShape, machine: Machine) -> Floor:
    """Floor of the decode part of a step; its contexts hold the new tokens already."""
    decoding = step.facts.decode_rows
    if not decoding:
        return Floor(0.0, 0.0, 0.0)
    return decode_floor(shape, rows, step.facts.context / decoding - 1, machine)


def _padding(step: TimedStep, shape: ModelShape, machine: Machine) -> Floor:
    """What the floor grows by when padding counts as tokens. Padding attends to nothing."""
    if not step.padding:
        return Floor(0.0, 0.0, 0.0)
    if step.facts.chunks:
        return Floor(2 * shape.layer_weights * step.padding / machine.flops, 0.0, 0.0)
    rows = step.facts.decode_rows
    less, more = (_floor(step, count, shape, machine) for count in (rows, rows + step.padding))
    return Floor(more.products - less.products, 0.0, more.logits - less.logits)
