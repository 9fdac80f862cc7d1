"""One frame of the Theatre: a state as plain numbers and words, ready for JSON. The page only draws it."""

from itertools import islice

from engine.trace import views
from engine.trace.events import Cause, Reason
from engine.trace.explain import explain, reason_text
from engine.trace.forecast import next_free
from engine.trace.happenings import event_line
from engine.trace.pool_cells import pool_cells
from engine.trace.state import State, scheduling_config
from engine.trace.timeline import Timeline
from engine.trace.views import RequestView, RowKind, StepBar, label

WAITING_SHOWN, FINISHED_SHOWN, LRU_SHOWN, CELLS_SHOWN, TEXT_SHOWN = 40, 8, 32, 4_096, 4_000
TAIL_SHOWN, TAILS_UP_TO = 24, 16  # last tokens of an answer as text, while few enough rows run to show them
POLICIES = ("batching", "capacity", "preemption", "eviction", "queue_order")


def frame(timeline: Timeline, seq: int, selected: int | str | None = None, live_seq: int | None = None) -> dict:
    """The state after the record ``seq``, in the schema that ``pages/parts/web`` draws.

    Args:
        selected: request whose panel is filled; "auto": the head of the queue, else the first running one.
        live_seq: where the engine is; the newest record when not given.
    """
    state = timeline.state_at(seq)
    live_step = timeline.last_step if live_seq is None else timeline.step_of_seq(live_seq)
    chosen = _auto(state) if selected == "auto" else selected
    return {
        "seq": state.seq,
        "step": state.step.number,
        "t_s": (state.t_ns - timeline.index.origin_ns) / 1e9,
        "live_seq": timeline.last_seq if live_seq is None else live_seq,
        "live_step": live_step,
        "first_step": timeline.first_step,
        "dropped_steps": timeline.dropped_steps,
        "behind_steps": max(0, live_step - state.step.number),
        "run": _run(state, timeline.provenance),
        "paused": state.paused,
        "numbers": _numbers(state, timeline),
        "waiting": [_waiting(state, request) for request in state.waiting[:WAITING_SHOWN]],
        "waiting_total": len(state.waiting),
        "running": [_running(state, state.requests[request]) for request in state.running],
        "finished": _finished(state),
        "finished_total": state.totals.finished + state.totals.aborted,
        "tokens": _tokens(state),
        "pool": pool_cells(state, CELLS_SHOWN) | {"lru": list(islice(state.pool.free_order(), LRU_SHOWN))},
        "history": [_bar(bar) for bar in state.history],
        "events": [event_line(state, happening) for happening in state.events],
        "preemption": event_line(state, state.last_preemption) if state.last_preemption else None,
        "marks": [list(mark) for mark in timeline.index.thinned_marks()],
        "selected": _selected(state, chosen) if chosen in state.requests else None,
    }


def _auto(state: State) -> int | None:
    return next(iter([*state.waiting, *state.running]), None)


def _run(state: State, provenance: str) -> dict:
    info, limits = state.run, scheduling_config(state.run)
    capped = info.get("config", {}).get("pool_blocks")
    sizes = ("pool_blocks", "block_size", "token_budget", "max_num_seqs")
    return {
        "model": info.get("model", ""),
        "device": info.get("device", ""),
        **{name: limits.get(name) for name in (*POLICIES, *sizes)},
        "classroom": capped is not None and capped == limits.get("pool_blocks"),
        "provenance": provenance,
        "partial": state.partial,
    }


def _numbers(state: State, timeline: Timeline) -> dict:
    cached = state.pool.num_cached
    return {
        "tokens_per_s": timeline.index.tokens_per_s(state.t_ns),
        "blocks_used": state.pool.size - state.pool.available,
        "blocks_total": state.pool.size,
        "blocks_cached": cached,
        "preemptions": state.totals.preemptions,
        "evictions": state.totals.evictions,
        "finished": state.totals.finished,
        "waiting": len(state.waiting),
        "running": len(state.running),
        "step_ms": next((bar.ms for bar in reversed(state.history) if bar.ms), 0.0),
        "gpu_ms": state.times.gpu_us / 1e3,
        "host_ms": (state.times.schedule_us + state.times.launch_us + state.times.apply_us) / 1e3,
        "idle_ms": state.times.idle_us / 1e3,
    }


def _bar(bar: StepBar) -> list:
    reason = Reason(bar.reason).name.lower() if bar.head >= 0 else "none"
    return [*bar[:6], label(bar.head), reason, bar.need, bar.have]


def _waiting(state: State, request: int) -> dict:
    view = state.requests[request]
    head, reason, need, have = state.head
    if request == head:
        why = {"reason": Reason(reason).name.lower(), "need": need, "have": have}
        why["text"] = reason_text(state, reason, need, have)
    elif request == state.waiting[0]:
        why = {"reason": "none", "need": 0, "have": 0, "text": reason_text(state, Reason.NONE, 0, 0)}
    else:
        why = {"reason": "behind_head", "need": 0, "have": 0, "text": f"behind {label(state.waiting[0])}"}
    return {
        "id": request,
        "name": view.name,
        "label": label(request),
        "state": views.STATE_NAMES[view.state],
        "prompt": view.prompt_length,
        "num_tokens": view.num_tokens,
        "computed_lost": view.computed_peak if view.state == views.PREEMPTED else 0,
        "max_tokens": view.max_tokens,
        **why,
    }


def _phase(state: State, view: RequestView) -> tuple[str, int, int]:
    """What a row did in the last step: phase, first token, number of tokens."""
    entry = state.step.ran.get(view.row)
    ran = entry if entry and entry[0] == view.id else None
    if ran and ran[3] is RowKind.PREFILL:
        chunk = next(chunk for chunk in state.step.chunks if chunk.row == view.row)
        return "prefill", chunk.start, chunk.tokens
    if (view.row, view.id) in state.step.sat_out:
        return "sat_out", view.num_scheduled, 0
    if view.row in state.decode_rows:
        return "padded" if view.has_ended else "decode", view.num_scheduled - 1, int(ran is not None)
    return "prefill", view.num_scheduled, 0


def _running(state: State, view: RequestView) -> dict:
    phase, start, tokens = _phase(state, view)
    if phase == "prefill":
        progress = view.num_computed / view.num_tokens
    else:
        progress = view.num_output / view.max_tokens
    return {
        "id": view.id,
        "name": view.name,
        "label": label(view.id),
        "row": view.row,
        "prompt": view.prompt_length,
        "output": view.num_output,
        "max_tokens": view.max_tokens,
        "computed": view.num_computed,
        "num_tokens": view.num_tokens,
        "phase": phase,
        "start": start,
        "tokens": tokens,
        "blocks": len(view.blocks),
        "progress": min(1.0, progress),
        "tail": state.text(view.output_ids[-TAIL_SHOWN:]) if len(state.running) <= TAILS_UP_TO else "",
    }


def _finished(state: State) -> list[dict]:
    last = [state.requests[request] for request in list(state.ended)[-FINISHED_SHOWN:]]
    return [{"id": v.id, "label": label(v.id), "cause": _cause(v), "output": v.num_output} for v in last]


def _cause(view: RequestView) -> str:
    return Cause(view.cause).name.lower() if view.cause else views.STATE_NAMES[view.state]


def _tokens(state: State) -> dict:
    step = state.step
    chunks = {chunk.row: chunk for chunk in step.chunks}
    rows = []
    for row, (request, _, end, kind) in step.ran.items():
        count = chunks[row].tokens if kind is RowKind.PREFILL else 1
        place = {"id": request, "label": label(request), "row": row, "phase": kind.name.lower()}
        last = kind is not RowKind.PREFILL or chunks[row].samples
        rows.append(place | {"start": end - count, "count": count, "last": last})
    graph = {"bucket": step.bucket, "eager_reason": step.eager_reason}
    return {"budget": step.budget or state.limit("token_budget"), "used": step.used, "rows": rows, **graph}


def _selected(state: State, request: int) -> dict:
    view = state.requests[request]
    return {
        "id": request,
        "label": label(request),
        "name": view.name,
        "state": views.STATE_NAMES[view.state],
        "table": list(view.blocks),
        "num_computed": view.num_computed,
        "text": state.text(view.output_ids[-TEXT_SHOWN:]),
        "prompt_text": state.text(view.token_ids[: view.prompt_length][-TEXT_SHOWN:]),
        "explain": explain(state, request),
        "next_free": next_free(state, request),
        "row": view.row,
        "epoch": view.epoch,
        "cached": view.num_cached,
        "preemptions": view.preemptions,
    }
