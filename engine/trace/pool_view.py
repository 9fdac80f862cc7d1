"""The block pool as the trace knows it: who holds what, and in which order blocks would be handed out.

Columns over block ids; index 0 is the reserved block. The free list is the eviction list: at first all blocks in
ascending order, later each released block at the back. The queue keeps stale entries, ``_place`` tells which entry of a
block counts; so taking, releasing and reviving are O(1), and a copy is a few memcpys. Eviction by priority orders by
``level`` first, which is sorted out only when somebody asks for the order.
"""

from array import array
from collections.abc import Iterable, Iterator

import numpy as np

NO_CONTENT = 2**31 - 1  # the level of a block that no request has used with content: handed out first


class PoolView:
    """References, contents and free order of ``size`` blocks, numbered 1..size."""

    __slots__ = (
        *("_head", "_place", "_queue", "available", "head_first", "now"),
        *("hashed", "index", "level", "owner", "refs", "size", "used"),
    )

    def __init__(self, size: int, eviction: str = "lru") -> None:
        self.size = size
        self.head_first = eviction == "flat-lru"  # the order in which a table is given back
        self.now = 0  # the step to come
        self.available = 0  # blocks that nobody references
        self.refs = array("i", bytes(4 * (size + 1)))
        self.owner = array("i", [-1]) * (size + 1)  # the last request that got it
        self.index = array("i", [-1]) * (size + 1)  # its place in the table of the request that computed it
        self.used = array("i", bytes(4 * (size + 1)))  # the last step in which anybody held it
        # Eviction by priority: the most important one that used its content. Empty under other policies.
        self.level = array("i", [NO_CONTENT]) * ((size + 1) * (eviction == "priority"))
        self.hashed = bytearray(size + 1)  # 1: its content is addressable
        self.set_free_order(range(1, size + 1))

    def copy(self) -> "PoolView":
        """An independent pool in the same state."""
        other = PoolView.__new__(PoolView)
        for name in ("size", "available", "head_first", "now", "_head"):
            setattr(other, name, getattr(self, name))
        for name in ("refs", "owner", "index", "used", "level", "hashed", "_queue", "_place"):
            setattr(other, name, getattr(self, name)[:])
        return other

    def take(self, block: int, request: int, index: int) -> None:
        """``block`` leaves the free order to become entry ``index`` of the table of ``request``."""
        self._leave_free_order(block)
        self.index[block] = index
        self.owner[block] = request
        if self.level:
            self.level[block] = NO_CONTENT

    def _leave_free_order(self, block: int) -> None:
        if self._place[block] == self._head:
            self._head += 1
        self._place[block] = -1
        self.refs[block] = 1
        self.available -= 1

    def share(self, block: int, request: int) -> None:
        """One more reference to a block found by its content; it leaves the free order if nobody held it."""
        if self.refs[block] == 0:
            self._leave_free_order(block)
        else:
            self.refs[block] += 1
        self.owner[block] = request

    def release(self, table: list[int], num_full: int, priority: int) -> None:
        """One reference less of each block of a table, tail first (``flat-lru``: head first); those without any go to
        the back of the free order. The first ``num_full`` hold content that a request of this priority used."""
        if self.level:
            for block in table[:num_full]:
                self.level[block] = min(priority, self.level[block])
        for block in table if self.head_first else reversed(table):
            self.used[block] = self.now
            self.refs[block] -= 1
            if self.refs[block] == 0:
                self._place[block] = len(self._queue)
                self._queue.append(block)
                self.available += 1
        if len(self._queue) > 2 * self.size + 64:
            self.set_free_order(list(self._by_age()))

    def forget(self, blocks: Iterable[int]) -> None:
        """The content of these blocks is gone."""
        for block in blocks:
            self.hashed[block] = 0

    def forget_all(self) -> None:
        """No block has content that could be found again, referenced ones included."""
        self.set_free_order(list(self.free_order()))
        self.hashed = bytearray(self.size + 1)
        self.level = array("i", [NO_CONTENT]) * len(self.level)

    def free_order(self) -> Iterator[int]:
        """Blocks that nobody references, the one handed out next first."""
        if not self.level:
            return self._by_age()
        return iter(sorted(self._by_age(), key=self.level.__getitem__, reverse=True))

    def levels(self) -> dict[int, int]:
        """Block -> level, of the blocks that have one."""
        return {block: level for block, level in enumerate(self.level) if level != NO_CONTENT}

    def _by_age(self) -> Iterator[int]:
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
