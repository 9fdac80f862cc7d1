"""How long a step takes, fitted from the trace of a run: what the simulator advances its clock by.

The time fitted is the whole cycle, from the end of the step before (or the launch, if the engine had nothing to do)
until its results are applied: device and exposed host time together, for only their sum moves a request forward.
"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace

import numpy as np

from engine.step import StepInput
from engine.trace.events import Record
from engine.trace.step_cost import StepCost, fit_cost
from engine.trace.step_facts import StepFacts
from engine.trace.timed_steps import timed_steps


@dataclass(frozen=True, slots=True)
class FitError:
    """How well a model describes the steps that it was fitted on, relative to the measured seconds.

    ``total``: all predicted seconds over all measured ones, less 1. ``median`` and ``p90``: of single steps, absolute.
    """

    steps: int
    total: float
    median: float
    p90: float


@dataclass(frozen=True, slots=True)
class StepModel:
    """Seconds of a step, and where the coefficients come from."""

    cost: StepCost
    error: FitError | None = None  # None: the coefficients were given, not fitted

    def seconds(self, step: StepInput) -> float:
        """Seconds of one cycle that runs ``step``."""
        return self.cost.total(facts_of(step))

    def to_dict(self) -> dict:
        """Plain values for a report and for the RUN record."""
        return asdict(self)


def fit(records: Iterable[Record]) -> StepModel:
    """The model of one run (a ``Timeline`` or its records): least squares, no coefficient below 0.

    Raises:
        ValueError: no step of the run was applied.
    """
    steps = cycles(records)
    if not steps:
        raise ValueError("no step of the run was applied: there is nothing to fit a step time from")
    cost = fit_cost(steps)
    return StepModel(cost, _error(cost, steps))


def cycles(records: Iterable[Record]) -> list[StepFacts]:
    """The applied steps of a run; each starts where the one before ended, unless the engine had nothing to do."""
    found, last_end = [], None
    for step in timed_steps(records):
        facts = step.facts
        if last_end is not None and step.idle_s > 0:  # idle time counts only while there was work
            facts = replace(facts, start_ns=min(facts.start_ns, last_end))
        last_end = facts.end_ns
        found.append(facts)
    return found


def facts_of(step: StepInput) -> StepFacts:
    """What a step works on, as far as its time depends on it."""
    facts = StepFacts(step.step, 0)
    tokens, starts = step.num_tokens, step.starts
    decodes = tokens == 1
    if decodes.all():
        facts.decode_rows, facts.context = len(tokens), int(starts.sum()) + len(tokens)
        return facts
    facts.decode_rows = int(decodes.sum())
    facts.context = int(starts[decodes].sum()) + facts.decode_rows
    chunk_tokens, chunk_starts = tokens[~decodes].astype(np.int64), starts[~decodes]
    facts.chunks, facts.prefill_tokens = len(chunk_tokens), int(chunk_tokens.sum())
    facts.padding = max(0, step.bucket - int(tokens.sum()))
    facts.prefill_pairs = int((chunk_tokens * chunk_starts + chunk_tokens * (chunk_tokens + 1) // 2).sum())
    return facts


def _error(cost: StepCost, steps: list[StepFacts]) -> FitError:
    measured = np.array([facts.seconds for facts in steps])
    predicted = np.array([cost.total(facts) for facts in steps])
    relative = np.abs(predicted / np.maximum(measured, 1e-9) - 1)
    return FitError(
        steps=len(steps),
        total=float(predicted.sum() / max(1e-9, measured.sum()) - 1),
        median=float(np.median(relative)),
        p90=float(np.percentile(relative, 90)),
    )
