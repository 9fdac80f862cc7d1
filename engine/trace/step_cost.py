"""Seconds of a step as a function of what it works on, fitted to the steps of a run: least squares, made robust."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from engine.trace.step_facts import StepFacts

OUTLIER, REFITS = 5.0, 3  # of the fitted step time
WORTH_IT = 0.9  # a further coefficient must lower the median error this far, or it fits noise


@dataclass(frozen=True, slots=True)
class StepCost:
    """Fitted seconds of a step: ``base + per_row x rows + per_context x context + sharing x (1 - 1 / rows)``, and for
    prefill ``prefill_base + per_token x tokens + per_pair x pairs`` more.

    ``sharing`` is what a step costs more as soon as rows share it: kernels for one row read the weights faster.
    """

    base: float
    per_row: float
    per_context: float
    prefill_base: float = 0.0
    per_token: float = 0.0
    per_pair: float = 0.0
    sharing: float = 0.0

    def decode(self, facts: StepFacts) -> float:
        """Seconds of the decode part of a step; 0 when nothing decodes."""
        if not facts.decode_rows:
            return 0.0
        shared = self.sharing * (1 - 1 / facts.decode_rows)
        return self.base + self.per_row * facts.decode_rows + self.per_context * facts.context + shared

    def total(self, facts: StepFacts) -> float:
        """Seconds of the whole step."""
        return (self.decode(facts) or self.base) + self.prefill(facts)

    def prefill(self, facts: StepFacts) -> float:
        """Seconds that the chunks of a step add; 0 without one."""
        if not facts.chunks:
            return 0.0
        computed = facts.prefill_tokens + facts.padding
        return self.prefill_base + self.per_token * computed + self.per_pair * facts.prefill_pairs


def fit_cost(steps: Iterable[StepFacts]) -> StepCost:
    """Least squares of the relative error over decode-only steps, then of what prefill adds; no coefficient below 0."""
    steps = [facts for facts in steps if facts.seconds > 0]
    pure = [facts for facts in steps if facts.decode_rows and not facts.chunks]
    columns = [[1.0, facts.decode_rows, facts.context, 1 - 1 / facts.decode_rows] for facts in pure]
    decode = _simplest(columns, [facts.seconds for facts in pure], pure)
    cost = StepCost(*decode[:3], sharing=decode[3])
    mixed = [facts for facts in steps if facts.chunks]
    extra = [facts.seconds - (cost.decode(facts) or cost.base) for facts in mixed]
    columns = [[1.0, facts.prefill_tokens + facts.padding, facts.prefill_pairs] for facts in mixed]
    prefill = _simplest(columns, extra, mixed)
    return replace(cost, prefill_base=prefill[0], per_token=prefill[1], per_pair=prefill[2])


def _simplest(columns: Sequence[Sequence[float]], values: Sequence[float], steps: Sequence[StepFacts]) -> list[float]:
    """The robust fit without the last column, unless that one explains much: else it would fit noise.

    Each equation is divided by the seconds of its step, so that short steps count as much as long ones.
    """
    if not steps:
        return [0.0] * 4
    seconds = np.array([facts.seconds for facts in steps])
    scaled, target = np.array(columns) / seconds[:, None], np.array(values) / seconds
    fewer, full = [*_robust(scaled[:, :-1], target), 0.0], _robust(scaled, target)
    errors = [np.median(np.abs(scaled @ found - target)) for found in (fewer, full)]
    return full if errors[1] < WORTH_IT * errors[0] else fewer


def _robust(columns: np.ndarray, values: np.ndarray) -> list[float]:
    """A fit repeated without the steps that something else disturbed: further off than ``OUTLIER`` median errors."""
    solution = _non_negative(columns, values)
    for _ in range(REFITS):
        errors = np.abs(columns @ solution - values)
        near = errors <= OUTLIER * np.median(errors) + 1e-9
        solution = _non_negative(columns[near], values[near])
    return solution


def _non_negative(columns: np.ndarray, values: np.ndarray) -> list[float]:
    """Least squares with the columns of negative coefficients dropped, most negative first. Zeros without data."""
    kept = list(range(columns.shape[1]))
    while len(values) and kept:
        solution = np.linalg.lstsq(columns[:, kept], values, rcond=None)[0]
        if solution.min() >= 0:
            found = dict(zip(kept, solution))
            return [float(found.get(i, 0.0)) for i in range(columns.shape[1])]
        kept.pop(int(solution.argmin()))
    return [0.0] * columns.shape[1]
