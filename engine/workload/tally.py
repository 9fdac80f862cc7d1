"""The figures of a run without its trace: counts while the engine runs, for simulations too long to keep.

The fast twin of ``engine.trace.metrics.summary`` for the keys that it has; a test compares the two.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from engine.trace.events import Admit, Apply, Arrive, Cause, Event, Leave, Record, Refuse, Step
from engine.trace.metrics import ranks
from engine.trace.recorder import Recorder

ENDED = (Cause.LENGTH, Cause.EOS, Cause.STOP)


@dataclass(slots=True)
class _Answer:
    arrived_ns: int
    prompt_tokens: int
    first_ns: int = 0
    last_ns: int = 0
    tokens: int = 0


def tally(records: Iterable[Record]) -> dict:
    """The figures of a run from its records: what ``Tally`` would have counted while it ran."""
    now_ns = 0
    counting = Tally(lambda: now_ns)
    for record in records:
        now_ns = record.t_ns
        counting.emit(record.event)
    return counting.summary()


class Tally(Recorder):
    """A recorder that keeps no record, only what the summary needs."""

    def __init__(self, clock: Callable[[], int]) -> None:
        super().__init__((), clock)
        self._now = clock
        self._live: dict[int, _Answer] = {}
        self._rows: dict[int, _Answer] = {}
        self._done: list[_Answer] = []
        self._first_arrival_ns: int | None = None
        self._last_apply_ns = 0
        self._gaps: Counter[int] = Counter()  # ns between results of a request -> how often
        self._counts = Counter(dict.fromkeys(("steps", "preemptions", "cached_tokens", "failed"), 0))
        self._takers = {Arrive: self._arrive, Admit: self._admit, Leave: self._leave, Apply: self._apply}
        self._takers |= {Step: self._step, Refuse: self._refuse}

    def emit(self, event: Event) -> None:
        """Count one event."""
        taker = self._takers.get(type(event))
        if taker is not None:
            taker(event)

    def summary(self) -> dict:
        """The keys of ``metrics.summary`` that need no trace, and ``steps``."""
        done = self._done
        duration = (self._last_apply_ns - (self._first_arrival_ns or 0)) / 1e9
        rate = 1 / duration if duration else 0.0
        tokens_in, tokens_out = (sum(getattr(a, name) for a in done) for name in ("prompt_tokens", "tokens"))
        return {
            "completed": len(done),
            "duration_s": duration,
            "total_input_tokens": tokens_in,
            "total_output_tokens": tokens_out,
            "request_throughput": len(done) * rate,
            "output_throughput": tokens_out * rate,
            "total_token_throughput": (tokens_in + tokens_out) * rate,
            **self._latencies(),
            **self._counts,
        }

    def _latencies(self) -> dict[str, float]:
        done = self._done
        gaps = np.repeat(np.array(list(self._gaps), float), np.array(list(self._gaps.values()), int))
        samples = {
            "ttft": [a.first_ns - a.arrived_ns for a in done],
            "tpot": [(a.last_ns - a.first_ns) / (a.tokens - 1) for a in done if a.tokens > 1],
            "itl": gaps,
            "e2el": [a.last_ns - a.arrived_ns for a in done],
        }
        found = {}
        for name, values in samples.items():
            found |= {f"{rank}_{name}_ms": value for rank, value in ranks(np.array(values) / 1e6).items()}
        return found

    def _arrive(self, event: Arrive) -> None:
        now = self._now()
        self._live[event.request] = _Answer(now, len(event.prompt_ids))
        self._first_arrival_ns = now if self._first_arrival_ns is None else self._first_arrival_ns

    def _refuse(self, event: Refuse) -> None:
        self._counts["failed"] += 1
        del self._live[event.request]

    def _admit(self, event: Admit) -> None:
        self._rows[event.row] = self._live[event.request]
        self._counts["cached_tokens"] += event.hit_tokens

    def _leave(self, event: Leave) -> None:
        if event.cause == Cause.PREEMPT:
            self._counts["preemptions"] += 1
        elif event.cause in ENDED:
            self._done.append(self._live.pop(event.request))
        elif event.cause != Cause.GROUP_END:
            self._counts["failed"] += 1
            del self._live[event.request]

    def _step(self, event: Step) -> None:
        self._counts["steps"] += 1

    def _apply(self, event: Apply) -> None:
        now, rows, gaps = self._now(), self._rows, self._gaps
        self._last_apply_ns = now
        for row in event.rows:
            answer = rows[row]
            if answer.tokens:
                gaps[now - answer.last_ns] += 1
            else:
                answer.first_ns = now
            answer.last_ns = now
            answer.tokens += 1
