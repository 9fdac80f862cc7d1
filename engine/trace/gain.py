"""Where a batching gain comes from, factor by factor: pure functions over the records of two runs of the same work.

    T_s/T_f = (N_s/N*) (N*/N_f) (d_s/d_f) ((1+P/D)_s/(1+P/D)_f) ((T/(D+P))_s/(T/(D+P))_f)
            =  ideal     drain   step shape        prefill              idle

U useful decode row-steps, B rows, N* = U/B the fewest decode steps, N decode-bearing steps, D decode time, d = D/N,
P prefill time, T wall time. The product telescopes, so that it closes proves nothing: show each factor beside a
prediction that does not use it (``engine.workload.simulate``).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from engine.trace.step_cost import StepCost
from engine.trace.step_facts import StepFacts

FACTORS: dict[str, str] = {
    "ideal": "N_s / N*: decode steps of static over the fewest that B full rows would need",
    "drain": "N* / N_f: in-flight cannot keep its rows full while the last requests drain",
    "step_shape": "d_s / d_f: mean seconds of a decode step (rows and contexts differ)",
    "prefill": "(1 + P/D)_s / (1 + P/D)_f: prefill time for each second of decode",
    "idle": "(T / (D + P))_s / (T / (D + P))_f: time in which no step ran",
}


@dataclass(frozen=True, slots=True)
class Totals:
    """A run in the letters of the identity; times in seconds."""

    useful: int
    decode_steps: int
    decode_s: float
    prefill_s: float
    wall_s: float


def totals(steps: Iterable[StepFacts], wall_s: float, cost: StepCost) -> Totals:
    """Sum up a run. In a mixed step the decode share is the fitted decode-only time, at most the whole step."""
    useful = decode_steps = 0
    decode_s = prefill_s = 0.0
    for facts in steps:
        useful += facts.useful
        decode_steps += facts.decode_rows > 0
        share = min(facts.seconds, cost.decode(facts)) if facts.chunks else facts.seconds
        decode_s += share
        prefill_s += facts.seconds - share
    return Totals(useful, decode_steps, decode_s, prefill_s, wall_s)


def factors(static: Totals, in_flight: Totals, rows: int) -> dict[str, float]:
    """The five factors by the names of ``FACTORS``; their product is the ratio of the wall times.

    Raises:
        ValueError: a run without a decode step, or runs that did different work.
    """
    if not (static.decode_steps and in_flight.decode_steps):
        raise ValueError("a run without decode steps has no factors")
    if static.useful != in_flight.useful:
        raise ValueError(f"the runs did different work: {static.useful} and {in_flight.useful} useful row-steps")
    fewest = static.useful / rows
    mean_s, mean_f = (run.decode_s / run.decode_steps for run in (static, in_flight))
    prefill_s, prefill_f = (1 + run.prefill_s / run.decode_s for run in (static, in_flight))
    idle_s, idle_f = (run.wall_s / (run.decode_s + run.prefill_s) for run in (static, in_flight))
    return {
        "ideal": static.decode_steps / fewest,
        "drain": fewest / in_flight.decode_steps,
        "step_shape": mean_s / mean_f,
        "prefill": prefill_s / prefill_f,
        "idle": idle_s / idle_f,
    }


def bound(lengths: Sequence[int], rows: int) -> float:
    """E[max of a group] / E[length] for groups of ``rows`` in order: the gain that row waste alone allows."""
    longest = [max(lengths[i : i + rows]) for i in range(0, len(lengths), rows)]
    return rows * sum(longest) / sum(lengths)
