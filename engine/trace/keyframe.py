"""A whole state as one record, for a reader that lost records.

The engine builds it at a step boundary with no step in flight, from values it has anyway. Totals and history are not
in it: they count from here, and ``State.partial`` says so.
"""

import json
from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Protocol

from engine.trace import views
from engine.trace.events import Keyframe
from engine.trace.pool_view import PoolView
from engine.trace.views import RequestView, StepView

if TYPE_CHECKING:
    from engine.trace.state import State


class RequestLike(Protocol):
    """What a keyframe needs of ``engine.request.Request``."""

    id: int
    name: str
    prompt_ids: list[int]
    token_ids: list[int]
    max_tokens: int
    priority: int
    seed: int
    arrived_ns: int
    num_cached_tokens: int
    num_preemptions: int


def build(
    run: dict, snapshot: dict, requests: Iterable[RequestLike], decode_rows: Iterable[int], paused: bool
) -> Keyframe:
    """The KEYFRAME event.

    Args:
        run: the JSON of the RUN record.
        snapshot: ``Scheduler.snapshot()`` with no step in flight.
        requests: all requests that the snapshot names.
        decode_rows: members of the decode set (padded rows too).
        paused: whether the engine stands still.
    """
    views_ = [asdict(_view(request, snapshot["requests"][request.id])) for request in requests]
    info = {**snapshot, "run": run, "requests": views_, "decode_rows": sorted(decode_rows), "paused": paused}
    return Keyframe(json.dumps(info).encode())


def load(state: "State", event: Keyframe) -> None:
    """Fill an empty state from a KEYFRAME."""
    info = event.data
    state.run, state.paused, state.partial = info["run"], info["paused"], True
    state.requests = {saved["id"]: RequestView(**saved) for saved in info["requests"]}
    state.mine = set(state.requests)
    state.waiting, state.running = info["waiting"], info["running"]
    state.rows = {state.requests[i].row: i for i in state.running}
    state.decode_rows = dict.fromkeys(info["decode_rows"])
    state.step = StepView(number=info["step"], t_ns=state.t_ns)
    state.head = tuple(info["head"])
    state.pool = _pool(state.limit("pool_blocks"), state.limit("eviction", "lru"), info)
    state.host = dict.fromkeys(info.get("host", ()), (-1, -1))
    for request in state.running:
        for index, block in enumerate(state.requests[request].blocks):
            state.pool.owner[block], state.pool.index[block] = request, index


def _view(request: RequestLike, standing: tuple) -> RequestView:
    state, row, epoch, computed, scheduled, num_tokens, blocks = standing
    return RequestView(
        id=request.id,
        name=request.name,
        prompt_length=len(request.prompt_ids),
        max_tokens=request.max_tokens,
        priority=request.priority,
        seed=request.seed,
        token_ids=list(request.token_ids),
        num_tokens=num_tokens,
        arrived_ns=request.arrived_ns,
        state=state,
        row=row,
        epoch=epoch,
        num_computed=computed,
        num_scheduled=scheduled,
        num_cached=request.num_cached_tokens,
        blocks=list(blocks),
        admitted_ns=request.arrived_ns if state != views.WAITING else -1,
        preemptions=request.num_preemptions,
    )


def _pool(size: int, eviction: str, info: dict) -> PoolView:
    pool = PoolView(size, eviction)
    for block, count in info["refs"].items():
        pool.refs[int(block)] = count
    for block in info["hashed"]:
        pool.hashed[block] = 1
    for block, level in info.get("levels", {}).items():
        pool.level[int(block)] = level
    pool.now = info["step"]
    pool.set_free_order(info["free"])
    return pool
