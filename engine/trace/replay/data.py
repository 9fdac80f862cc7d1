"""What the viewer draws of one run: lanes as segments, everything else as what changes from step to step."""

from collections import deque

from engine.trace.events import Reason
from engine.trace.explain import reason_text
from engine.trace.frame import POLICIES
from engine.trace.pool_cells import pool_cells
from engine.trace.state import State, scheduling_config
from engine.trace.timeline import Timeline
from engine.trace.views import Happening, RowKind, label

MOST_STEPS = 4_000  # of each run, the newest
CELLS, QUEUE_SHOWN = 1_024, 40
_KINDS = {RowKind.DECODE: 0, RowKind.PREFILL: 1, RowKind.PADDED: 2}


def run_data(timeline: Timeline) -> dict:
    """One run as plain values. Step numbers are given once (``first``); places in lists count from there.

    ``lanes[row]`` are [from, to, request, kind] with kind 0 decode, 1 prefill, 2 padded; ``pool`` and ``queue`` hold
    one entry per step with the cells and the queue that changed in it (an unchanged queue: 0); ``steps`` are
    [seconds, tokens, budget, head, reason, words of the reason].
    """
    last = timeline.last_step
    first = max(timeline.first_step, last - MOST_STEPS + 1)
    fold = _Fold()
    whole = first == timeline.first_step
    state = timeline.base_state() if whole else timeline.state_at(timeline.seq_of_step(first - 1)).copy()
    state.events = deque()  # keeps all of them, where a state of a page keeps the last few
    for record in timeline.records_after(state.seq):
        state.apply(record)
        if state.step.number >= first and record.seq == timeline.seq_of_step(state.step.number):
            fold.end_step(state, (state.t_ns - timeline.index.origin_ns) / 1e9)
    events = [_event(one) for one in state.events if one.step >= first]
    return _facts(timeline, state) | {"first": first, "left_out": first - 1, "events": events} | fold.data()


def _facts(timeline: Timeline, state: State) -> dict:
    info, limits = timeline.info, scheduling_config(timeline.info)
    return {
        "model": str(info.get("model", "")),
        "device": str(info.get("device", "")),
        "date": str(info.get("date", ""))[:10],
        "provenance": "Simulated" if timeline.provenance == "Simulated" else "Recorded",
        "policies": {name: limits[name] for name in POLICIES if name in limits},
        "rows": state.limit("max_num_seqs"),
        "pool_blocks": state.pool.size,
        "block_size": state.block_size,
    }


class _Fold:
    """Collects the changes while a state moves on."""

    def __init__(self) -> None:
        self._cells: list[tuple[int, int, int]] = []
        self._waiting: list[int] = []
        self._lanes: dict[int, list[list[int]]] = {}
        self._names: dict[int, list] = {}
        self.steps, self.pool, self.queue = [], [], []
        self._per_cell = 1

    def end_step(self, state: State, seconds: float) -> None:
        """Note how the state stands at the end of a step."""
        step, (head, reason, need, have) = state.step, state.head
        words = reason_text(state, reason, need, have) if head >= 0 and reason else ""
        name = Reason(reason).name.lower() if head >= 0 else "none"
        self.steps.append([round(seconds, 4), step.used, step.budget, head, name, need, have, words])
        at = len(self.steps) - 1
        for row, (request, _, _, kind) in step.ran.items():
            self._run_row(row, at, request, _KINDS[kind])
        self._note_queue(state)
        self._note_pool(state)
        for request in (*state.waiting[:QUEUE_SHOWN], *state.running):
            view = state.requests[request]
            self._names.setdefault(request, [label(request), view.name, view.prompt_length, view.max_tokens])

    def data(self) -> dict:
        """What was collected."""
        lanes = [self._lanes.get(row, []) for row in range(max(self._lanes, default=-1) + 1)]
        found = {"steps": self.steps, "lanes": lanes, "queue": self.queue, "pool": self.pool}
        return found | {"requests": self._names, "per_cell": self._per_cell}

    def _run_row(self, row: int, at: int, request: int, kind: int) -> None:
        lane = self._lanes.setdefault(row, [])
        if lane and lane[-1][1:] == [at - 1, request, kind]:
            lane[-1][1] = at
        else:
            lane.append([at, at, request, kind])

    def _note_queue(self, state: State) -> None:
        waiting = [*state.waiting[:QUEUE_SHOWN], len(state.waiting)]
        self.queue.append(0 if waiting == self._waiting else waiting)
        self._waiting = waiting

    def _note_pool(self, state: State) -> None:
        cells = pool_cells(state, CELLS)
        self._per_cell = cells["per_cell"]
        now = list(zip(cells["owner"], cells["state"], cells["refs"]))
        old = self._cells or [(-1, 0, 0)] * len(now)
        self.pool.append([v for at, (one, was) in enumerate(zip(now, old)) if one != was for v in (at, *one)])
        self._cells = now


def _event(one: Happening) -> list:
    reason = Reason(one.other).name.lower() if one.kind == "refuse" else ""
    other = label(one.other) if one.kind == "preempt" else reason
    return [one.step, one.kind, one.request, one.need, one.have, other, one.lost, one.freed]
