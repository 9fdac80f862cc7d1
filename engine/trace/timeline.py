"""One run as a line of records that can be entered anywhere.

Records are kept encoded. ``state_at`` folds from the nearest known state: a snapshot every 1,024 steps, or one of the
few states near the places that were looked at last. So the next step costs one step, and the step before at most 64
records. Safe to use from several threads; a returned state must not be changed.
"""

import threading
from array import array
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from copy import deepcopy

from engine.trace.codec import decode, encode
from engine.trace.events import Keyframe, Record, Run, Step
from engine.trace.state import State
from engine.trace.step_index import StepIndex

MAX_STEPS = 200_000
SNAPSHOT_STEPS = 1_024
NEAR_RECORDS = 64  # spacing of the states kept near the place looked at
NEAR_STATES = 64
SHOWN_STATES = 8  # places looked at last, one per tab or so


class TraceDamaged(ValueError):
    """A record contradicts those before it, because some are missing or one is wrong: no state can be shown."""


class _Memo(OrderedDict[int, State]):
    """The states put last, by the seq of their last record."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self._size = size

    def put(self, seq: int, state: State) -> None:
        """Keep a state; beyond the size the oldest goes."""
        self[seq] = state
        if len(self) > self._size:
            self.popitem(last=False)


class Timeline:
    """The records of one run (its first is RUN, or KEYFRAME after a loss), at most ``max_steps`` steps of them.

    ``dropped_steps`` tells how many older steps were let go, ``holes`` how many records are missing, ``provenance``
    whether it runs on this machine ("Measured") or was loaded from a file ("Recorded"). A run whose RUN record names
    its own ("Simulated") keeps it.
    """

    def __init__(self, max_steps: int = MAX_STEPS, provenance: str = "Measured") -> None:
        self.provenance = provenance
        self.index = StepIndex()
        self.dropped_steps = 0
        self.holes = 0
        self.info: dict = {}
        self._max_steps = max_steps
        self._data: list[bytes] = []
        self._seqs = array("Q")
        self._snapshots: list[tuple[int, State]] = []  # (seq, state after it), ascending; the first is the base
        self._near = _Memo(NEAR_STATES)
        self._shown = _Memo(SHOWN_STATES)
        self._lock = threading.RLock()

    def append(self, record: Record, data: bytes | None = None) -> None:
        """Add the next record; ``data`` is its encoded form when at hand."""
        with self._lock:
            if not self._seqs:
                self._snapshots.append((record.seq - 1, State()))
            elif record.seq != self._seqs[-1] + 1:
                self.holes += record.seq - self._seqs[-1] - 1
            if isinstance(record.event, Run):
                self.info = record.event.data
                self.provenance = self.info.get("provenance", self.provenance)
            elif isinstance(record.event, Keyframe) and not self.info:
                self.info = record.event.data["run"]
            self._data.append(data or encode(record))
            self._seqs.append(record.seq)
            self.index.add(record)
            if len(self.index) >= self._max_steps + SNAPSHOT_STEPS:
                self._drop_oldest()

    def frozen(self) -> "Timeline":
        """The records as of now; what is written later is not in it."""
        other = Timeline(self._max_steps, self.provenance)
        with self._lock:
            other.index, other.info = deepcopy(self.index), self.info
            other.dropped_steps, other.holes = self.dropped_steps, self.holes
            other._data, other._seqs, other._snapshots = self._data[:], self._seqs[:], self._snapshots[:]
        return other

    def __iter__(self) -> Iterator[Record]:
        """The records that are kept, oldest first, as of now."""
        return self.records_after(-1)

    def records_after(self, seq: int) -> Iterator[Record]:
        """The kept records behind the record ``seq``, oldest first, as of now."""
        with self._lock:
            kept = self._data[bisect_right(self._seqs, seq) :]
        return (decode(memoryview(data))[0] for data in kept)

    def __len__(self) -> int:
        return len(self._data)

    @property
    def first_seq(self) -> int:
        """Seq of the oldest record, -1 when empty."""
        return self._seqs[0] if self._seqs else -1

    @property
    def last_seq(self) -> int:
        """Seq of the newest record, -1 when empty."""
        return self._seqs[-1] if self._seqs else -1

    @property
    def first_step(self) -> int:
        """Number of the oldest step that is kept."""
        return self.index.first_step

    @property
    def last_step(self) -> int:
        """Number of the newest step; 0 before the first."""
        return self.index.last_step if len(self.index) else 0

    @property
    def step_count(self) -> int:
        """Steps that are kept."""
        return len(self.index)

    def seq_of_step(self, step: int) -> int:
        """Seq of the last record of a step, its APPLY and the leaves that it caused included; clamped to the run."""
        with self._lock:
            if not len(self.index) or step < self.first_step:
                return self.first_seq
            return self.index.end_seq[min(step, self.last_step) - self.first_step]

    def step_of_seq(self, seq: int) -> int:
        """Number of the newest step at a record; one below the first step before any."""
        with self._lock:
            return self.first_step + bisect_right(self.index.start_seq, seq) - 1

    def base_state(self) -> State:
        """The state before the oldest record."""
        with self._lock:
            return self._snapshots[0][1].copy() if self._snapshots else State()

    def walk(self) -> Iterator[tuple[State, Record]]:
        """Each record with the state before it. The state is the walker's own and moves on with the next record."""
        state = self.base_state()
        for record in self:
            yield state, record
            state.apply(record)

    def state_at(self, seq: int) -> State:
        """The state after the record ``seq`` (clamped to the run). Raises ``TraceDamaged`` when it cannot be known."""
        with self._lock:
            if not self._seqs:
                return State()
            end = max(1, bisect_right(self._seqs, max(seq, 0)))
            target = self._seqs[end - 1]
            if target not in self._shown:
                self._shown.put(target, self._fold_to(end))
            self._shown.move_to_end(target)
            return self._shown[target]

    def keep_up(self) -> None:
        """Make the snapshots that are due, so that a run nobody looked at opens at once."""
        with self._lock:
            due = self.last_step // SNAPSHOT_STEPS * SNAPSHOT_STEPS
            if due > max(self._snapshots[-1][1].step.number if self._snapshots else 0, self.first_step):
                self._fold_to(bisect_right(self._seqs, self.index.start_seq[due - self.first_step]))

    def _fold_to(self, end: int) -> State:
        """The state after the record at place ``end - 1``, leaving near states behind on the way."""
        known, state = self._nearest(self._seqs[end - 1])
        state = state.copy()
        for place in range(bisect_right(self._seqs, known) if known >= 0 else 0, end):
            record = decode(memoryview(self._data[place]))[0]
            self._apply(state, record)
            if isinstance(record.event, Step) and record.step % SNAPSHOT_STEPS == 0:
                self._keep_snapshot(record.seq, state)
            if place % NEAR_RECORDS == 0 and end - place < NEAR_RECORDS * NEAR_STATES // 2:
                self._near.put(record.seq, state.copy())
        return state

    def _apply(self, state: State, record: Record) -> None:
        try:
            state.apply(record)
        except (LookupError, ValueError) as error:
            what = f"record {record.seq} ({record.event.KIND.name}) does not follow from those before it"
            raise TraceDamaged(f"{what}; records missing: {self.holes}") from error

    def _nearest(self, seq: int) -> tuple[int, State]:
        place = bisect_right(self._snapshots, seq, key=lambda kept: kept[0]) - 1
        best = self._snapshots[max(0, place)]
        for memo in (self._near, self._shown):
            known = max((known for known in memo if known <= seq), default=-1)
            if known > best[0]:
                best = (known, memo[known])
        return best

    def _keep_snapshot(self, seq: int, state: State) -> None:
        if self._snapshots[-1][0] < seq:
            self._snapshots.append((seq, state.copy()))

    def _drop_oldest(self) -> None:
        step = self.first_step + SNAPSHOT_STEPS
        seq = self.seq_of_step(step - 1)
        base = self.state_at(seq)
        count = bisect_right(self._seqs, seq)
        del self._data[:count], self._seqs[:count]
        self._snapshots = [(seq, base), *(kept for kept in self._snapshots if kept[0] > seq)]
        for memo in (self._near, self._shown):
            for known in [known for known in memo if known < seq]:
                del memo[known]
        self.index.drop_before(step)
        self.dropped_steps += SNAPSHOT_STEPS


def add_to_runs(runs: list[Timeline], record: Record, data: bytes | None = None, provenance: str = "Measured") -> None:
    """Append a record to the last run, or begin a new one with it (RUN, or KEYFRAME after a loss).

    Records before the first beginning cannot be folded and are left out.
    """
    if isinstance(record.event, Run) or (isinstance(record.event, Keyframe) and _is_beginning(runs, record)):
        runs.append(Timeline(provenance=provenance))
    if runs:
        runs[-1].append(record, data)


def split_runs(records: Iterable[Record], provenance: str = "Recorded") -> list[Timeline]:
    """One timeline for each run in ``records``, which usually come from a file."""
    runs: list[Timeline] = []
    for record in records:
        add_to_runs(runs, record, provenance=provenance)
    return runs


def runs_of(records: Iterable[Record]) -> list[Timeline]:
    """As ``split_runs``, except that a timeline is its own only run."""
    return [records] if isinstance(records, Timeline) else split_runs(records)


def _is_beginning(runs: list[Timeline], record: Record) -> bool:
    return not runs or record.seq != runs[-1].last_seq + 1
