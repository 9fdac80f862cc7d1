"""Where each row's time went: the lanes of the Arena."""

from engine.trace.events import Apply
from engine.trace.state import State
from engine.trace.timeline import Timeline
from engine.trace.views import RowKind

Segment = list  # [kind, begin_s, end_s, request]; kind: useful, prefill, padded or idle; request -1 when idle
_KINDS = {RowKind.DECODE: "useful", RowKind.PREFILL: "prefill", RowKind.PADDED: "padded"}


def lanes(timeline: Timeline, width_s: float | None = None) -> list[list[Segment]]:
    """For each row its segments in order, in seconds since the first arrival; ``width_s`` keeps only the last so many.

    Row r of a step is busy from the launch (or from the results before, whichever is later) until the results of the
    step. Equal neighbours are joined. A result that came too late and was dropped counts as padded.
    """
    origin = timeline.index.origin_ns
    rows: list[list[Segment]] = []
    busy_until = 0
    for state, record in timeline.walk():
        if isinstance(record.event, Apply) and record.event.of_step in state.in_flight:
            rows = rows or [[] for _ in range(state.limit("max_num_seqs"))]
            begin = max(state.in_flight[record.event.of_step][0], busy_until)
            times = [(t_ns - origin) / 1e9 for t_ns in (busy_until, begin, record.t_ns)]
            _add_step(rows, state, record.event, *times)
            busy_until = record.t_ns
    end_s = (busy_until - origin) / 1e9
    filled = [_with_idle(lane, end_s) for lane in rows]
    return filled if width_s is None else [_last(lane, end_s - width_s) for lane in filled]


def _add_step(rows: list[list[Segment]], state: State, event: Apply, before: float, begin: float, end: float) -> None:
    dropped = set(event.dropped)
    for row, (request, _, _, kind) in state.in_flight[event.of_step][1].items():
        name = "padded" if row in dropped else _KINDS[kind]
        lane = rows[row]
        if lane and lane[-1][2] == before and [lane[-1][0], lane[-1][3]] == [name, request]:
            lane[-1][2] = end  # the row ran in the step before, too
        else:
            lane.append([name, begin, end, request])


def _with_idle(lane: list[Segment], end_s: float) -> list[Segment]:
    filled: list[Segment] = []
    at = 0.0
    for segment in [*lane, ["idle", end_s, end_s, -1]]:
        if segment[1] > at:
            filled.append(["idle", at, segment[1], -1])
        filled.append(segment)
        at = segment[2]
    return filled[:-1]


def _last(lane: list[Segment], since_s: float) -> list[Segment]:
    return [[kind, max(begin, since_s), end, request] for kind, begin, end, request in lane if end > since_s]
