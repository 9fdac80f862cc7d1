"""The block pool as the trace knows it: who holds what, and in which order blocks would be handed out.

Columns over block ids; index 0 is the reserved block. The free list is the LRU list: at first all blocks in ascending
order, later each released block at the back. The queue keeps stale entries, ``_place`` tells which entry of a block
counts; so taking, releasing and reviving are O(1), and a copy is a few memcpys.
"""

from array import array
from collections.abc import Iterable, Iterator

import numpy as np


class PoolView:
    """References, contents and free order of ``size`` blocks, numbered 1..size."""

    __slots__ = ("_head", "_place", "_queue", "available", "hashed", "owner", "refs", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self.available = 0  # blocks that nobody references
        self.refs = array("i", bytes(4 * (size + 1)))
        self.owner = array("i", [-1]) * (size + 1)  # the last request that got it
        self.hashed = bytearray(size + 1)  # 1: its content is addressable
        self.set_free_order(range(1, size + 1))

    def copy(self) -> "PoolView":
        """An independent pool in the same state."""
        other = PoolView.__new__(PoolView)
        for name in ("size", "available", "_head"):
            setattr(other, name, getattr(self, name))
        for name in ("refs", "owner", "hashed", "_queue", "_place"):
            setattr(other, name, getattr(self, name)[:])
        return other

    def take(self, block: int, request: int) -> None:
        """``block`` leaves the free order with one reference, for ``request``."""
        if self._place[block] == self._head:
            self._head += 1
        self._place[block] = -1
        self.refs[block] = 1
        self.owner[block] = request
        self.available -= 1

    def share(self, block: int, request: int) -> None:
        """One more reference to a block found by its content; it leaves the free order if nobody held it."""
        if self.refs[block] == 0:
            self.take(block, request)
        else:
            self.refs[block] += 1
            self.owner[block] = request

    def release(self, blocks: Iterable[int]) -> None:
        """One reference less of each, in this order; those without any go to the back of the free order."""
        for block in blocks:
            self.refs[block] -= 1
            if self.refs[block] == 0:
                self._place[block] = len(self._queue)
                self._queue.append(block)
                self.available += 1
        if len(self._queue) > 2 * self.size + 64:
            self.set_free_order(list(self.free_order()))

    def forget(self, blocks: Iterable[int]) -> None:
        """The content of these blocks is gone."""
        for block in blocks:
            self.hashed[block] = 0

    def forget_all(self) -> None:
        """No block has content that could be found again, referenced ones included."""
        self.hashed = bytearray(self.size + 1)

    def free_order(self) -> Iterator[int]:
        """Blocks that nobody references, the one handed out next first."""
        place_of, queue = self._place, self._queue
        return (queue[place] for place in range(self._head, len(queue)) if place_of[queue[place]] == place)

    @property
    def num_cached(self) -> int:
        """Reclaimable blocks: unreferenced, with content."""
        free = np.frombuffer(self.refs, np.int32) == 0
        return int(np.count_nonzero(free & np.frombuffer(self.hashed, np.bool_)))

    def set_free_order(self, blocks: Iterable[int]) -> None:
        """Exactly these blocks are unreferenced, in this order."""
        self._queue, self._head = array("i", blocks), 0
        self.available = len(self._queue)
        self._place = array("i", [-1]) * (self.size + 1)
        for place, block in enumerate(self._queue):
            self._place[block] = place
