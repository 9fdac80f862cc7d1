"""What each step of a run worked on, and when the device had it: a small fold over ADMIT, LEAVE, STEP and APPLY."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from engine.trace.events import Admit, Apply, Leave, Record, Step


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
    prefill_pairs: int = 0  # (token, token it attends to) pairs of all chunks
    chunks: int = 0
    padding: int = 0  # tokens that the graph of a step with chunks computes for nobody

    @property
    def seconds(self) -> float:
        """Device time of the step, as seen from the host."""
        return (self.end_ns - self.start_ns) / 1e9


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
        facts.prefill_pairs = sum(map(attended_pairs, event.chunk_starts, event.chunk_tokens))
        facts.padding = max(0, event.bucket - event.used) if facts.chunks else 0
        self.in_flight[record.step] = facts, decoding

    def _apply(self, record: Record, event: Apply) -> None:
        """A step's results arrived; it had the device from its launch or from the end of the step before it."""
        facts, decoding = self.in_flight.pop(event.of_step)
        facts.useful = len(decoding.intersection(event.rows))
        facts.start_ns = max(facts.start_ns, self.free_ns)
        facts.end_ns = self.free_ns = record.t_ns
        self.done.append(facts)


def attended_pairs(start: int, tokens: int) -> int:
    """Pairs of a chunk of ``tokens`` behind ``start``: each token attends to all before it and to itself."""
    return tokens * start + tokens * (tokens + 1) // 2


def step_facts(records: Iterable[Record]) -> list[StepFacts]:
    """The applied steps of one run, in launch order."""
    fold = StepFold()
    for record in records:
        fold.feed(record)
    return fold.done
