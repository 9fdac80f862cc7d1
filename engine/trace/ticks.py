"""The counters of a run over time: what a replay shows ticking while its lanes fill in."""

from engine.trace.events import Apply
from engine.trace.state import State
from engine.trace.timeline import Timeline

Tick = list  # [t_s, output tokens, useful row-steps, all row-steps, finished requests]


def ticks(timeline: Timeline, most: int = 160) -> list[Tick]:
    """The counters after each applied step, thinned evenly to about ``most``; seconds since the first arrival.

    The last tick is the end of the run, so that what a replay ends with equals ``metrics.summary``.
    """
    origin, found, applied_ns = timeline.index.origin_ns, [], None
    for state, record in timeline.walk():
        if applied_ns is not None and isinstance(record.event, Apply):
            found.append(_tick(state, applied_ns - origin))
        if isinstance(record.event, Apply):
            applied_ns = record.t_ns
    if applied_ns is None:
        return []
    stride = max(1, -(-len(found) // most))
    return [*found[stride - 1 :: stride], _tick(timeline.state_at(timeline.last_seq), applied_ns - origin)]


def _tick(state: State, t_ns: int) -> Tick:
    totals = state.totals
    useful = totals.decode + totals.prefill
    rows = useful + totals.padded + totals.late + totals.idle
    return [t_ns / 1e9, totals.output_tokens, useful, rows, totals.finished]
