"""Where each step of a run lies in its trace: light columns kept while records arrive, so nothing needs folding."""

from array import array
from bisect import bisect_left, bisect_right

from engine.trace.events import KV, Apply, Arrive, Cause, Keyframe, Leave, Op, Record, Step, Time

MARKS_SHOWN = 200


class StepIndex:
    """Per step: seq of its STEP record, seq of the last record that belongs to it, and its time; tokens over time."""

    def __init__(self) -> None:
        self.origin_ns = 0  # the first arrival: second 0 of frames, tables, lanes and exports
        self._arrived = False
        self.first_step = 1
        self.start_seq = array("Q")
        self.end_seq = array("Q")
        self.start_ns = array("q")
        self.marks: list[tuple[int, str]] = []
        self._apply_ns = array("q")
        self._tokens = array("q")  # generated up to and with that APPLY

    def __len__(self) -> int:
        return len(self.start_seq)

    @property
    def last_step(self) -> int:
        """Number of the newest step, ``first_step - 1`` when there is none."""
        return self.first_step + len(self.start_seq) - 1

    def add(self, record: Record) -> None:
        """Take note of one record."""
        event = record.event
        if not self._arrived:
            self.origin_ns, self._arrived = record.t_ns, isinstance(event, (Arrive, Keyframe))
        if isinstance(event, Step):
            if not self.start_seq:
                self.first_step = record.step
            self.start_seq.append(record.seq)
            self.end_seq.append(record.seq)
            self.start_ns.append(record.t_ns)
        elif isinstance(event, Apply):
            self._apply_ns.append(record.t_ns)
            self._tokens.append((self._tokens[-1] if self._tokens else 0) + len(event.token_ids))
            self._extend(record.seq)
        elif isinstance(event, Time) and self.end_seq and record.seq == self.end_seq[-1] + 1:
            self._extend(record.seq)
        elif isinstance(event, Leave):
            self._leave(record, event)
        elif isinstance(event, KV) and event.op == Op.EVICT:
            self._mark(record.step + 1, "evict")

    def tokens_per_s(self, t_ns: int, window_s: float = 1.0) -> float:
        """Tokens generated in the last ``window_s`` seconds of engine time before ``t_ns``, per second."""
        end = bisect_right(self._apply_ns, t_ns)
        if end == 0 or not self.start_ns:
            return 0.0
        since = max(t_ns - int(window_s * 1e9), self.start_ns[0])
        begin = bisect_right(self._apply_ns, since)
        before = self._tokens[begin - 1] if begin else 0
        return (self._tokens[end - 1] - before) / max(1e-9, (t_ns - since) / 1e9)

    def thinned_marks(self, limit: int = MARKS_SHOWN) -> list[tuple[int, str]]:
        """Preemptions and evictions over the whole run, evenly thinned to at most ``limit``."""
        count = len(self.marks)
        return self.marks if count <= limit else [self.marks[i * count // limit] for i in range(limit)]

    def drop_before(self, step: int) -> None:
        """Forget the steps before ``step``."""
        count = step - self.first_step
        cut_ns = self.start_ns[count]
        for column in (self.start_seq, self.end_seq, self.start_ns):
            del column[:count]
        applies = bisect_left(self._apply_ns, cut_ns)
        del self._apply_ns[:applies], self._tokens[:applies]
        self.marks = [mark for mark in self.marks if mark[0] >= step]
        self.first_step = step

    def _leave(self, record: Record, event: Leave) -> None:
        # A preemption is decided for the step to come; any other leave belongs to the step whose results ended it.
        if event.cause == Cause.PREEMPT:
            self._mark(record.step + 1, "preempt")
        else:
            self._extend(record.seq)

    def _extend(self, seq: int) -> None:
        if self.end_seq:
            self.end_seq[-1] = seq

    def _mark(self, step: int, kind: str) -> None:
        if not self.marks or self.marks[-1] != (step, kind):
            self.marks.append((step, kind))
