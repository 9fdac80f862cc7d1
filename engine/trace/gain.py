"""Where a batching gain comes from, factor by factor: pure functions over the records of two runs of the same work.

    T_s/T_f = (N_s/N*) (N*/N_f) (d_s/d_f) ((1+P/D)_s/(1+P/D)_f) ((T/(D+P))_s/(T/(D+P))_f)
            =  ideal     drain   step shape        prefill              idle

U useful decode row-steps, B rows, N* = U/B the fewest decode steps, N decode-bearing steps, D decode time, d = D/N,
P prefill time, T wall time. The product telescopes, so that it closes proves nothing: show each factor beside a
prediction that does not use it (``engine.workload.simulate``).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from engine.trace.events import Admit, Apply, Leave, Record, Step

OUTLIER, REFITS = 5.0, 3  # of the fitted step time

FACTORS: dict[str, str] = {
    "ideal": "N_s / N*: decode steps of static over the fewest that B full rows would need",
    "drain": "N* / N_f: in-flight cannot keep its rows full while the last requests drain",
    "step_shape": "d_s / d_f: mean seconds of a decode step (rows and contexts differ)",
    "prefill": "(1 + P/D)_s / (1 + P/D)_f: prefill time for each second of decode",
    "idle": "(T / (D + P))_s / (T / (D + P))_f: time in which no step ran",
}


@dataclass(slots=True)
class StepFacts:
    """One step: when the device worked on it, and on what."""

    step: int
    start_ns: int
    end_ns: int = 0
    decode_rows: int = 0  # rows that decoded, padded ones included
    useful: int = 0  # decode rows whose token was kept
    context: int = 0  # KV tokens read by the decode rows, their new one included
    prefill_tokens: int = 0
    chunks: int = 0

    @property
    def seconds(self) -> float:
        """Device time of the step, as seen from the host."""
        return (self.end_ns - self.start_ns) / 1e9


@dataclass(frozen=True, slots=True)
class StepCost:
    """Fitted seconds of a step: ``base + per_row x rows + per_context x context``, and for prefill
    ``prefill_base + per_token x tokens`` more."""

    base: float
    per_row: float
    per_context: float
    prefill_base: float = 0.0
    per_token: float = 0.0

    def decode(self, facts: StepFacts) -> float:
        """Seconds of the decode part of a step; 0 when nothing decodes."""
        if not facts.decode_rows:
            return 0.0
        return self.base + self.per_row * facts.decode_rows + self.per_context * facts.context

    def total(self, facts: StepFacts) -> float:
        """Seconds of the whole step."""
        prefill = self.prefill_base + self.per_token * facts.prefill_tokens if facts.chunks else 0.0
        return (self.decode(facts) or self.base) + prefill


@dataclass(frozen=True, slots=True)
class Totals:
    """A run in the letters of the identity; times in seconds."""

    useful: int
    decode_steps: int
    decode_s: float
    prefill_s: float
    wall_s: float


@dataclass(slots=True)
class _Row:
    context: int
    decodes: bool = False


@dataclass(slots=True)
class StepFold:
    """The little of the state that the factors need: who decodes, with how long a context, and when steps ran."""

    rows: dict[int, _Row] = field(default_factory=dict)
    in_flight: dict[int, tuple[StepFacts, frozenset[int]]] = field(default_factory=dict)
    done: list[StepFacts] = field(default_factory=list)
    free_ns: int = 0  # when the device finished its last step

    def feed(self, record: Record) -> None:
        """Take one record of a run, in order."""
        event = record.event
        if isinstance(event, Admit):
            self.rows[event.row] = _Row(event.hit_tokens)
        elif isinstance(event, Leave) and not event.keeps_row:
            self.rows.pop(event.row, None)
        elif isinstance(event, Step):
            self._launch(record, event)
        elif isinstance(event, Apply):
            self._apply(record, event)

    def _launch(self, record: Record, event: Step) -> None:
        """A step was launched: chunks set the context, members of the decode set advance by one."""
        for row, start, tokens in zip(event.chunk_rows, event.chunk_starts, event.chunk_tokens, strict=True):
            self.rows[row].context = start + tokens
        for row in event.joined:
            self.rows[row].decodes = True
        skipped = set(event.sat_out)
        decoding = frozenset(n for n, row in self.rows.items() if row.decodes and n not in skipped)
        for row in decoding:
            self.rows[row].context += 1
        facts = StepFacts(record.step, record.t_ns, decode_rows=len(decoding))
        facts.context = sum(self.rows[row].context for row in decoding)
        facts.prefill_tokens, facts.chunks = sum(event.chunk_tokens), len(event.chunk_rows)
        self.in_flight[record.step] = facts, decoding

    def _apply(self, record: Record, event: Apply) -> None:
        """A step's results arrived; it had the device from its launch or from the end of the step before it."""
        facts, decoding = self.in_flight.pop(event.of_step)
        facts.useful = len(decoding.intersection(event.rows))
        facts.start_ns = max(facts.start_ns, self.free_ns)
        facts.end_ns = self.free_ns = record.t_ns
        self.done.append(facts)


def step_facts(records: Iterable[Record]) -> list[StepFacts]:
    """The applied steps of one run, in launch order."""
    fold = StepFold()
    for record in records:
        fold.feed(record)
    return fold.done


def fit_cost(steps: Iterable[StepFacts]) -> StepCost:
    """Least squares of the step time over decode-only steps, then of what prefill adds; no coefficient below 0."""
    steps = list(steps)
    pure = [facts for facts in steps if facts.decode_rows and not facts.chunks]
    columns = np.array([[1.0, facts.decode_rows, facts.context] for facts in pure]).reshape(-1, 3)
    cost = StepCost(*_robust(columns, np.array([facts.seconds for facts in pure])))
    mixed = [facts for facts in steps if facts.chunks]
    extra = np.array([facts.seconds - (cost.decode(facts) or cost.base) for facts in mixed])
    columns = np.array([[1.0, facts.prefill_tokens] for facts in mixed]).reshape(-1, 2)
    return StepCost(cost.base, cost.per_row, cost.per_context, *_robust(columns, extra))


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


def _robust(columns: np.ndarray, values: np.ndarray) -> list[float]:
    """A fit repeated without the steps that something else disturbed: further off than ``OUTLIER`` median errors."""
    solution = _non_negative(columns, values)
    for _ in range(REFITS if len(values) else 0):
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
