"""What will change first for a waiting request, where known quantities tell: a bound, badged Computed by the page."""

from engine.trace import views
from engine.trace.events import Reason
from engine.trace.explain import many
from engine.trace.state import State
from engine.trace.views import RequestView, RowKind, label

NEEDS_BLOCKS = (Reason.NO_FREE_BLOCKS, Reason.WATERMARK, Reason.RESERVED_FOR_RUNNING, Reason.PRIORITY)


def next_free(state: State, request: int) -> str:
    """What will change first for a waiting request, when known quantities tell; else an empty string."""
    view = state.requests.get(request)
    if view is None or view.state not in (views.WAITING, views.PREEMPTED):
        return ""
    head, reason, need, have = state.head
    if reason == Reason.GATE_CLOSED and need > 0:
        return f"The gate opens in at most {need / 1000:.1f} ms, with {have:,} collected so far."
    if reason == Reason.GATE_CLOSED:
        return _group_forecast(state)
    if head >= 0 and reason in (*NEEDS_BLOCKS, Reason.MAX_NUM_SEQS):
        return _leave_forecast(state)
    return ""


def steps_left(state: State, view: RequestView) -> int:
    """Steps that a decoding row still needs at most; results in flight are not counted."""
    coming = sum(1 for _, computes in state.in_flight.values() if _gives_token(computes.get(view.row), view))
    return max(0, view.max_tokens - view.num_output - coming)


def blocks_freed(state: State, view: RequestView) -> int:
    """Blocks that become available when a request leaves: those nobody else references."""
    return sum(1 for block in view.blocks if state.pool.refs[block] == 1)


def _decoding(state: State) -> list[RequestView]:
    holders = (state.requests[state.rows[row]] for row in state.decode_rows)
    return [view for view in holders if not view.has_ended]


def _leave_forecast(state: State) -> str:
    rows = _decoding(state)
    if not rows or state.limit("batching") in ("static", "dynamic"):
        return _group_forecast(state)
    first = min(rows, key=lambda view: (steps_left(state, view), view.id))
    freed = many(blocks_freed(state, first), "block")
    return f"Next change expected when {label(first.id)} finishes: {freed}, {_at_most(steps_left(state, first))}."


def _group_forecast(state: State) -> str:
    rows = _decoding(state)
    if not rows or len(rows) < sum(1 for request in state.running if not state.requests[request].has_ended):
        return ""
    last = max(rows, key=lambda view: (steps_left(state, view), view.id))
    freed = many(sum(1 for count in state.pool.refs if count), "block")
    return f"Next change expected when {label(last.id)} ends the batch: {freed}, {_at_most(steps_left(state, last))}."


def _at_most(steps: int) -> str:
    return f"at most {many(steps, 'step')}" if steps else "with the results in flight"


def _gives_token(entry: tuple[int, int, int, RowKind] | None, view: RequestView) -> bool:
    return entry is not None and entry[:2] == (view.id, view.epoch) and entry[2] >= view.num_tokens
