"""Everything that happened in a run, from its first step on, to be filtered and searched.

A frame carries the last few happenings only. The log folds the run once, with a state of its own, and then only what
came since; so asking again while a run goes on costs what the new records cost.
"""

import threading
from bisect import bisect_right
from collections import deque
from collections.abc import Collection
from itertools import islice

from engine.trace.happenings import event_line
from engine.trace.state import State
from engine.trace.timeline import Timeline
from engine.trace.views import STATE_NAMES, Happening, RequestView, label, request_of

GROUPS = {  # what a reader filters by -> kinds of happening
    "admit": ("admit", "resume"),
    "preempt": ("preempt",),
    "evict": ("evict",),
    "finish": ("finish", "abort"),
    "refuse": ("refuse",),
    "hit": ("hit",),
    "swap": ("swap_out", "swap_in"),
}
BEFORE, AFTER, FOUND = 150, 50, 12  # lines around the place looked at; requests that a search shows
KEPT = 200_000  # happenings


class EventLog:
    """The happenings of one run, the same at each call. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._state: State | None = None
        self._happened: deque[Happening] = deque(maxlen=KEPT)

    def page(
        self, timeline: Timeline, groups: Collection[str] = tuple(GROUPS), search: str = "", step: int = 0
    ) -> dict:
        """The lines around ``step`` that pass the filters.

        Args:
            groups: names of ``GROUPS``; others are ignored.
            search: label or id of a request, else a part of its name; empty: every request, and what concerns none.

        Returns:
            ``lines`` as of ``event_line``, oldest first; ``total`` lines that pass; ``here``, how many of them lie at
            or before ``step``; ``requests`` that the search found.
        """
        with self._lock:
            self._follow(timeline)
            found = self._find(search.strip()) if search.strip() else None
            kinds = {kind for group in groups for kind in GROUPS.get(group, ())}
            passing = [one for one in self._happened if one.kind in kinds and (found is None or one.request in found)]
            here = bisect_right(passing, step, key=lambda one: one.step)
            shown = passing[max(0, here - BEFORE) : here + AFTER]
            lines = [event_line(self._state, happening) for happening in shown]
            return {"lines": lines, "total": len(passing), "here": here, "requests": self._requests(found or {})}

    def _follow(self, timeline: Timeline) -> None:
        if self._state is None or self._state.seq + 1 < timeline.first_seq:  # or what came next was dropped meanwhile
            self._state = timeline.base_state()
            self._state.events = self._happened
            self._happened.clear()
        for record in timeline.records_after(self._state.seq):
            self._state.apply(record)
        while timeline.dropped_steps and self._happened and self._happened[0].step < timeline.first_step:
            self._happened.popleft()

    def _find(self, search: str) -> dict[int, RequestView]:
        views, exact = self._state.requests, request_of(search)
        if exact in views:
            return {exact: views[exact]}
        wanted = search.casefold()
        return {request: view for request, view in views.items() if wanted in view.name.casefold()}

    def _requests(self, found: dict[int, RequestView]) -> list[dict]:
        """The requests found, each with the step at which something first happened to it."""
        first: dict[int, Happening] = {}
        for one in self._happened:
            if one.request in found:
                first.setdefault(one.request, one)
        return [
            {
                "id": request,
                "label": label(request),
                "name": view.name,
                "state": STATE_NAMES[view.state],
                "step": first[request].step if request in first else self._state.step.number,
            }
            for request, view in islice(found.items(), FOUND)
        ]
