"""How content that moves between pool and host changes a ``State``."""

from typing import TYPE_CHECKING

from engine.trace.events import KV, Op
from engine.trace.views import RequestView

if TYPE_CHECKING:
    from engine.trace.state import State


def on_swap(state: "State", event: KV) -> None:
    """Slots are filled, emptied for the next ADMIT, or give up their content."""
    first, second = event.blocks[::2], event.blocks[1::2]
    if event.op == Op.SWAP_OUT:
        for block, slot in zip(first, second):
            state.host.pop(slot, None)
            state.host[slot] = state.pool.owner[block], state.pool.index[block]
        state.totals.swapped_out += len(first)
        return
    for slot in first if event.op == Op.SWAP_IN else event.blocks:
        del state.host[slot]
    if event.op == Op.SWAP_IN:
        state.fetched = second


def fetch(state: "State", view: RequestView) -> None:
    """The table of an admitted request starts with blocks from the host among its hits. They, and all behind the first
    of them, count as computed when the step that brings them is applied."""
    fetched, first = set(state.fetched), state.fetched[0]
    state.fetched = []
    for index, block in enumerate(view.blocks):
        if block in fetched:
            state.pool.take(block, view.id, index)
        else:
            state.pool.share(block, view.id)
    view.num_computed = view.blocks.index(first) * state.block_size
    step = state.step.number + 1
    state.fetching[step] = (*state.fetching.get(step, ()), (view.id, view.epoch, view.num_cached))
    state.totals.swapped_in += len(fetched)
