"""One function per kind of record: how it changes a ``State``. STEP and APPLY are in ``fold_steps``, what moves between
pool and host in ``fold_swaps``."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from typing import TYPE_CHECKING

from engine.trace import views
from engine.trace.events import (
    KV,
    Admit,
    Apply,
    Arrive,
    Cause,
    Cmd,
    Event,
    Keyframe,
    Leave,
    Op,
    Pieces,
    Refuse,
    Run,
    Step,
    Time,
)
from engine.trace.fold_steps import on_apply, on_step
from engine.trace.fold_swaps import fetch, on_swap
from engine.trace.keyframe import load
from engine.trace.pool_view import PoolView
from engine.trace.views import Happening, RequestView, Times

if TYPE_CHECKING:
    from engine.trace.state import State

KEEP_ENDED = 4096  # ended requests that a state remembers


def _on_run(state: "State", event: Run) -> None:
    state.run = event.data
    state.pool = PoolView(state.limit("pool_blocks"), state.limit("eviction", "lru"))


def _on_arrive(state: "State", event: Arrive) -> None:
    prompt = list(event.prompt_ids)
    state.requests[event.request] = RequestView(
        id=event.request,
        name=event.name.decode(errors="replace"),
        prompt_length=len(prompt),
        max_tokens=event.max_tokens,
        priority=event.priority,
        seed=event.seed,
        token_ids=prompt,
        num_tokens=len(prompt),
        arrived_ns=state.t_ns,
    )
    state.mine.add(event.request)
    state.totals.arrived += 1
    _enqueue(state, event.request)


def _enqueue(state: "State", request: int) -> None:
    # Behind its equals; most arrivals come last.
    waiting, key = state.waiting, state.queue_key
    if not waiting or key(waiting[-1]) <= key(request):
        waiting.append(request)
    else:
        waiting.insert(bisect_right(waiting, key(request), key=key), request)


def _on_refuse(state: "State", event: Refuse) -> None:
    view = state.own(event.request)
    state.waiting.remove(event.request)
    view.state, view.ended_ns = views.REFUSED, state.t_ns
    state.totals.refused += 1
    _happened(state, "refuse", event.request, event.need, event.have, event.reason)
    _forget_oldest(state, event.request)


def _on_admit(state: "State", event: Admit) -> None:
    view = state.own(event.request)
    state.waiting.remove(event.request)
    state.running.append(event.request)
    state.rows[event.row] = event.request
    view.state, view.row, view.epoch = views.RUNNING, event.row, event.epoch
    view.num_computed = view.num_scheduled = view.num_cached = event.hit_tokens
    view.cached_total += event.hit_tokens
    view.blocks, view.num_swapped = list(event.hit_blocks), len(state.fetched)
    if state.fetched:
        fetch(state, view)
    else:
        for block in event.hit_blocks:
            state.pool.share(block, event.request)
    if view.admitted_ns < 0:
        view.admitted_ns = state.t_ns
    state.totals.admitted += 1
    state.totals.cached_tokens += event.hit_tokens
    _decided(state, "resume" if event.resumed else "admit", event.request, event.hit_tokens, len(event.hit_blocks))
    if event.hit_tokens:
        _decided(state, "hit", event.request, event.hit_tokens, len(event.hit_blocks))
    if view.num_swapped:
        _decided(state, "swap_in", event.request, view.num_swapped, len(event.hit_blocks))


def _on_leave(state: "State", event: Leave) -> None:
    view = state.own(event.request)
    view.epoch = event.epoch
    if event.cause == Cause.PREEMPT:
        freed = len(view.blocks)
        _give_back(state, view)
        _preempt(state, view, event, freed)
    else:
        if view.row < 0:
            state.waiting.remove(event.request)
        if not view.has_ended:
            _end(state, view, event)
        if not event.keeps_row:
            _give_back(state, view)
            _forget_oldest(state, event.request)


def _preempt(state: "State", view: RequestView, event: Leave, freed: int) -> None:
    view.computed_peak = max(view.computed_peak, view.num_computed)
    view.num_computed = view.num_scheduled = 0
    view.state = views.PREEMPTED
    view.preemptions += 1
    view.lost_tokens += event.lost_tokens
    state.waiting.insert(bisect_left(state.waiting, state.queue_key(view.id), key=state.queue_key), view.id)
    state.totals.preemptions += 1
    _decided(state, "preempt", view.id, event.need, event.have, event.for_request, event.lost_tokens, freed)
    state.last_preemption = state.pending[-1]


def _end(state: "State", view: RequestView, event: Leave) -> None:
    aborted = event.cause in (Cause.ABORT, Cause.ERROR)
    view.state = views.ABORTED if aborted else views.FINISHED
    view.cause, view.ended_ns = event.cause, state.t_ns
    state.totals.aborted += aborted
    state.totals.finished += not aborted
    _happened(state, "abort" if aborted else "finish", view.id, view.num_output, event.cause)


def _give_back(state: "State", view: RequestView) -> None:
    full = min(view.num_computed, view.num_tokens) // state.block_size if state.limit("prefix_cache", 1) else 0
    state.pool.release(view.blocks, full, view.priority)
    view.blocks = []
    if view.row >= 0:
        state.running.remove(view.id)
        del state.rows[view.row]
        state.decode_rows.pop(view.row, None)
        view.row = -1


def _forget_oldest(state: "State", request: int) -> None:
    state.ended.append(request)
    if len(state.ended) > KEEP_ENDED:
        del state.requests[state.ended.popleft()]


def _on_time(state: "State", event: Time) -> None:
    state.times = Times(event.of_step, event.gpu_us, event.idle_us, event.schedule_us, event.launch_us, event.apply_us)


def _on_kv(state: "State", event: KV) -> None:
    if event.op == Op.RESET:
        state.pool.forget_all()
        state.host.clear()
    elif event.op == Op.EVICT:
        state.pool.forget(event.blocks)
        state.totals.evictions += len(event.blocks)
        _decided(state, "evict", -1, len(event.blocks))
    else:
        on_swap(state, event)
        if event.op == Op.SWAP_OUT:
            _decided(state, "swap_out", -1, len(event.blocks) // 2)


def _on_cmd(state: "State", event: Cmd) -> None:
    if event.op in (Op.PAUSE, Op.RESUME):
        state.paused = event.op == Op.PAUSE
        _happened(state, "pause" if state.paused else "resume_cmd", -1)


def _on_pieces(state: "State", event: Pieces) -> None:
    at = 0
    for token, length in zip(event.token_ids, event.lengths):
        state.pieces[token] = event.data[at : at + length]
        at += length


def _on_keyframe(state: "State", event: Keyframe) -> None:
    # A state that has seen everything needs no keyframe.
    if not state.run:
        load(state, event)


def _happened(state: "State", kind: str, request: int, need: int = 0, have: int = 0, other: int = -1) -> None:
    happening = Happening(state.step.number, kind, request, need, have, other)
    state.events.append(happening)
    state.step.happened = [*state.step.happened, happening]


def _decided(state: "State", kind: str, request: int, *numbers: int) -> None:
    happening = Happening(state.step.number + 1, kind, request, *numbers)
    state.events.append(happening)
    state.pending.append(happening)


FOLD: dict[type, Callable[["State", Event], None]] = {
    Run: _on_run,
    Arrive: _on_arrive,
    Refuse: _on_refuse,
    Admit: _on_admit,
    Leave: _on_leave,
    Step: on_step,
    Apply: on_apply,
    Time: _on_time,
    KV: _on_kv,
    Cmd: _on_cmd,
    Pieces: _on_pieces,
    Keyframe: _on_keyframe,
}
