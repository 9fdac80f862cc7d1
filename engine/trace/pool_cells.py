"""The block pool as cells to draw: whose, in which state, by how many held."""

import numpy as np

from engine.trace.pool_view import PoolView
from engine.trace.state import State

FREE, USED, CACHED, PADDED = range(4)


def pool_cells(state: State, most: int) -> dict:
    """Columns ``owner`` (-1: none), ``state`` and ``refs`` of at most ``most`` cells, the first is block 1.

    Of a larger pool every ``per_cell``-th block stands for its neighbours.
    """
    pool = state.pool
    refs, hashed, owner = (np.frombuffer(column, kind)[1:] for column, kind in _columns(pool))
    look = np.where(refs > 0, USED, np.where(hashed, CACHED, FREE))
    padded = [view for view in (state.requests[request] for request in state.running) if view.has_ended]
    look[[block - 1 for view in padded for block in view.blocks]] = PADDED
    owner = np.where(look == FREE, -1, owner)
    every = -(-pool.size // most) or 1
    cells = {"owner": owner[::every].tolist(), "state": look[::every].tolist(), "refs": refs[::every].tolist()}
    return cells | {"per_cell": every}


def _columns(pool: PoolView) -> tuple:
    return (pool.refs, np.int32), (pool.hashed, np.bool_), (pool.owner, np.int32)
