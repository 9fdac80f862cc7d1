"""A run as a Chrome trace (chrome://tracing, Perfetto).

One async track per request with its phases nested inside; a thread per row with one slice per stint of a request;
a thread of steps; counters of pool and queues; an arrow from each preemption to the resumption.
"""

import json
from collections.abc import Iterable

from engine.trace import views
from engine.trace.events import Admit, Apply, Arrive, Cause, Leave, Record, Refuse, Step
from engine.trace.state import State
from engine.trace.timeline import Timeline, runs_of
from engine.trace.views import label

_STEPS_TID, _FIRST_ROW_TID = 1, 10


def to_chrome(records: Iterable[Record]) -> str:
    """The JSON text of the trace; each run in ``records`` is a process of its own."""
    written = [_Writer(pid, run.index.origin_ns).write(run) for pid, run in enumerate(runs_of(records), 1)]
    return json.dumps({"traceEvents": [event for events in written for event in events], "displayTimeUnit": "ms"})


class _Writer:
    """Turns the records of one run into trace events; times in microseconds since ``origin_ns``."""

    def __init__(self, pid: int, origin_ns: int) -> None:
        self._pid, self._origin_ns = pid, origin_ns
        self._events: list[dict] = []
        self._phases: dict[int, str] = {}  # open inner slice of a request on its async track
        self._stints: dict[int, tuple[int, float]] = {}  # row -> request, since
        self._now = 0.0
        self._arrows: dict[int, int] = {}  # preempted request -> number of its open arrow
        self._num_arrows = 0
        self._busy_until = 0.0

    def write(self, timeline: Timeline) -> list[dict]:
        """All events of a run; what is still open at its end is closed there."""
        self._name_threads(timeline)
        opened = False
        for state, record in timeline.walk():
            self._now = (record.t_ns - self._origin_ns) / 1e3
            if state.run and not opened:
                self._open(state)
                opened = True
            self._take(state, record)
        for request in list(self._phases):
            self._end_request(request)
        for row in list(self._stints):
            self._end_stint(row)
        return self._events

    def _open(self, state: State) -> None:
        # A run whose older steps were dropped or lost begins with requests under way.
        for request in [*state.waiting, *state.running]:
            view = state.requests[request]
            if not view.has_ended:
                self._begin_request(request, view.name, views.STATE_NAMES[view.state])
            if view.row >= 0:
                self._stints[view.row] = (request, self._now)

    def _take(self, state: State, record: Record) -> None:
        match record.event:
            case Arrive(request=request, name=name):
                self._begin_request(request, name.decode(errors="replace"), "waiting")
            case Refuse(request=request):
                self._end_request(request)
            case Admit():
                self._admit(record.event)
            case Leave():
                self._leave(state, record.event)
            case Step():
                self._counters(state, record.event)
            case Apply():
                self._results(state, record.event)

    def _admit(self, event: Admit) -> None:
        self._phase(event.request, "recompute" if event.resumed else "prefill")
        self._stints[event.row] = (event.request, self._now)
        if event.request in self._arrows:
            self._arrow("f", self._arrows.pop(event.request), event.row)

    def _leave(self, state: State, event: Leave) -> None:
        ended_before = state.requests[event.request].has_ended
        if event.cause == Cause.PREEMPT:
            self._phase(event.request, "preempted")
            self._end_stint(event.row)
            self._num_arrows += 1
            self._arrows[event.request] = self._num_arrows
            self._arrow("s", self._num_arrows, event.row)
        else:
            if not ended_before:
                self._end_request(event.request)
            if event.row >= 0 and not event.keeps_row:
                self._end_stint(event.row)

    def _results(self, state: State, event: Apply) -> None:
        launched_ns, ran = state.in_flight.get(event.of_step, (0, {}))
        begin = max((launched_ns - self._origin_ns) / 1e3, self._busy_until)
        arguments = {"rows": len(ran), "tokens": len(event.token_ids), "dropped": len(event.dropped)}
        step = f"step {event.of_step}"
        self._add("X", step, tid=_STEPS_TID, ts=begin, dur=self._now - begin, args=arguments)
        self._busy_until = self._now
        for row in event.rows:
            request = state.rows[row]
            if self._phases.get(request) != "decode":
                self._phase(request, "decode")

    def _counters(self, state: State, event: Step) -> None:
        used = state.pool.size - event.free - event.reclaimable
        pool = {"used": used, "cached": event.reclaimable, "free": event.free}
        self._add("C", "blocks", args=pool)
        self._add("C", "requests", args={"running": len(state.running), "waiting": event.waiting})
        self._add("C", "tokens of the step", args={"tokens": event.used})

    def _begin_request(self, request: int, name: str, phase: str) -> None:
        self._add("b", f"request {label(request)}", **self._track(request), args={"name": name})
        self._phase(request, phase)

    def _arrow(self, end: str, number: int, row: int) -> None:
        self._add(end, "preempt to resume", cat="preemption", id=f"{self._pid}.{number}", tid=self._tid(row), bp="e")

    def _phase(self, request: int, name: str) -> None:
        self._close_phase(request)
        self._phases[request] = name
        self._add("b", name, **self._track(request))

    def _close_phase(self, request: int) -> None:
        if request in self._phases:
            self._add("e", self._phases.pop(request), **self._track(request))

    def _end_request(self, request: int) -> None:
        self._close_phase(request)
        self._add("e", f"request {label(request)}", **self._track(request))

    def _end_stint(self, row: int) -> None:
        request, since = self._stints.pop(row)
        self._add("X", label(request), tid=self._tid(row), ts=since, dur=self._now - since, args={"request": request})

    def _add(self, phase: str, name: str, tid: int = 0, ts: float | None = None, **more: object) -> None:
        place = {"pid": self._pid, "tid": tid, "ts": self._now if ts is None else ts}
        self._events.append({"ph": phase, "name": name, **place, **more})

    def _name_threads(self, timeline: Timeline) -> None:
        rows = timeline.state_at(timeline.last_seq).limit("max_num_seqs")
        names = {_STEPS_TID: "steps"} | {self._tid(row): f"row {row}" for row in range(rows)}
        self._add("M", "process_name", args={"name": f"Flightdeck, run {self._pid}"})
        for tid, name in names.items():
            self._add("M", "thread_name", tid=tid, args={"name": name})

    def _track(self, request: int) -> dict:
        return {"cat": "request", "id": f"{self._pid}.{request}"}

    @staticmethod
    def _tid(row: int) -> int:
        return _FIRST_ROW_TID + row
