"""A run as two tables, one line per request and one per step. Pages show them, exports write them."""

from engine.trace import views
from engine.trace.answers import Answer, answers
from engine.trace.events import Apply, Cause, Step, Time
from engine.trace.state import State
from engine.trace.timeline import Timeline
from engine.trace.views import Computes, RowKind, label


def request_table(timeline: Timeline) -> list[dict]:
    """One line per request in order of arrival. Times: seconds since the run began; None: did not happen."""
    origin = timeline.index.origin_ns
    return [_request_line(answer, origin) for answer in answers(timeline)[0]]


def step_table(timeline: Timeline) -> list[dict]:
    """One line per step.

    ``decode``, ``prefill``, ``padded``, ``late`` and ``idle`` are row-steps and add up to the rows. ``ms`` is
    the time from launch (or the results before, whichever is later) to the results of the step.
    """
    origin = timeline.index.origin_ns
    lines: dict[int, dict] = {}
    busy_until = 0
    state = timeline.base_state()
    for record in timeline:
        event = record.event
        if isinstance(event, Apply) and event.of_step in lines:
            launched_ns, computes = state.in_flight[event.of_step]
            lines[event.of_step]["ms"] = (record.t_ns - max(launched_ns, busy_until)) / 1e6
            _add_results(lines[event.of_step], event, computes)
            busy_until = record.t_ns
        elif isinstance(event, Time) and event.of_step in lines:
            lines[event.of_step] |= {"gpu_us": event.gpu_us, "idle_us": event.idle_us}
        state.apply(record)
        if isinstance(event, Step):
            lines[record.step] = _step_line(state, event, origin)
    return list(lines.values())


def _request_line(answer: Answer, origin: int) -> dict:
    view = answer.view

    def seconds(t_ns: int) -> float | None:
        return (t_ns - origin) / 1e9 if t_ns >= 0 else None

    return {
        "id": view.id,
        "label": label(view.id),
        "name": view.name,
        "state": views.STATE_NAMES[view.state],
        "cause": Cause(view.cause).name.lower() if view.cause else "",
        "prompt_tokens": view.prompt_length,
        "output_tokens": view.num_output,
        "max_tokens": view.max_tokens,
        "cached_tokens": view.cached_total,
        "recomputed_tokens": view.recomputed,
        "preemptions": view.preemptions,
        "arrived_s": seconds(view.arrived_ns),
        "admitted_s": seconds(view.admitted_ns),
        "first_token_s": seconds(view.first_token_ns),
        "last_token_s": seconds(view.last_token_ns),
        "queue_ms": (view.admitted_ns - view.arrived_ns) / 1e6 if view.admitted_ns >= 0 else None,
        "ttft_ms": answer.ttft_ms,
        "tpot_ms": answer.tpot_ms,
        "e2el_ms": answer.e2el_ms,
    }


def _step_line(state: State, event: Step, origin: int) -> dict:
    step, totals = state.step, state.history[-1]
    rows = {kind.name.lower(): step.rows_that(kind) for kind in RowKind}
    return {
        "step": step.number,
        "t_s": (step.t_ns - origin) / 1e9,
        "ms": None,
        "budget": event.budget,
        "used": event.used,
        **rows,
        "late": 0,
        "idle": max(0, state.limit("max_num_seqs") - sum(rows.values())),
        "prefill_tokens": totals.prefill,
        "output_tokens": 0,
        "running": len(state.running),
        "waiting": event.waiting,
        "free_blocks": event.free,
        "reclaimable_blocks": event.reclaimable,
        "preemptions": totals.preemptions,
        "evictions": sum(happening.need for happening in step.happened if happening.kind == "evict"),
        "gpu_us": None,
        "idle_us": None,
    }


def _add_results(line: dict, event: Apply, computes: Computes) -> None:
    line["output_tokens"] = len(event.token_ids)
    for row in event.dropped:
        kind = computes[row][3]
        if kind != RowKind.PADDED:
            line["late"] += 1
            line["decode" if kind == RowKind.DECODE else "prefill"] -= 1
