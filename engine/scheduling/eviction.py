"""Which unreferenced block is handed out next, and so whose content is evicted.

===============  ==================================================================================================
eviction         order
===============  ==================================================================================================
lru              freed longest ago first; a request frees its tail first, so the deepest block of a prefix goes first
priority         blocks without content, then those of the least important requests; equal ones as with lru
flat-lru         as lru, but a request frees its head first: the bad example. What is left of a prefix whose head is
                 gone can never be hit again
===============  ==================================================================================================

All operations are O(1), with ``priority`` O(log n) in the number of different priorities.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from heapq import heappop, heappush
from typing import Protocol

from engine.config import Eviction

NO_CONTENT = 2**31 - 1  # the level of a block that nothing speaks for: less important than any priority


class FreeOrder(Protocol):
    """The unreferenced blocks, in the order in which they will be handed out. At first all, ascending."""

    def put(self, block: int) -> None:
        """The last reference to ``block`` is gone."""

    def remove(self, block: int) -> None:
        """``block`` is referenced again: its content was hit."""

    def take(self) -> int:
        """Remove the next block and return it."""

    def freeing(self, table: Sequence[int]) -> Iterable[int]:
        """The blocks of a table, in the order in which a request gives them back."""

    def credit(self, blocks: Iterable[int], priority: int) -> None:
        """These referenced blocks hold content that a request of this priority used."""

    def forget_all(self) -> None:
        """No block holds content any more."""

    def levels(self) -> dict[int, int]:
        """Block -> the most important priority that used its content, where the order depends on it."""

    def __iter__(self) -> Iterator[int]: ...

    def __len__(self) -> int: ...

    def __contains__(self, block: object) -> bool: ...


class LeastRecent(OrderedDict[int, None]):
    """``lru``: one list, freed blocks go to its back, tail first."""

    def put(self, block: int) -> None:
        self[block] = None

    remove = OrderedDict.__delitem__

    def take(self) -> int:
        return self.popitem(last=False)[0]

    def freeing(self, table: Sequence[int]) -> Iterable[int]:
        return reversed(table)

    def credit(self, blocks: Iterable[int], priority: int) -> None:
        """Every content is worth the same."""

    def forget_all(self) -> None:
        """Age alone counts."""

    def levels(self) -> dict[int, int]:
        return {}


class FlatLeastRecent(LeastRecent):
    """``flat-lru``: blind to chains, head first."""

    def freeing(self, table: Sequence[int]) -> Iterable[int]:
        return table


class LeastImportant(FreeOrder):
    """``priority``: one list per level. The level of a block is the most important (lowest) priority that used it."""

    def __init__(self, blocks: Iterable[int]) -> None:
        self._begin(blocks)

    def _begin(self, blocks: Iterable[int]) -> None:
        self._level_of: dict[int, int] = {}  # of blocks with content; of all others it is NO_CONTENT
        self._lists = {NO_CONTENT: OrderedDict.fromkeys(blocks)}
        self._heap = [-NO_CONTENT]  # levels that have a list, the least important one first
        self._count = len(self._lists[NO_CONTENT])

    def put(self, block: int) -> None:
        level = self._level_of.get(block, NO_CONTENT)
        if level not in self._lists:
            self._lists[level] = OrderedDict()
            heappush(self._heap, -level)
        self._lists[level][block] = None
        self._count += 1

    def remove(self, block: int) -> None:
        del self._lists[self._level_of.get(block, NO_CONTENT)][block]
        self._count -= 1

    def take(self) -> int:
        while not self._lists[-self._heap[0]]:
            del self._lists[-heappop(self._heap)]
        block, _ = self._lists[-self._heap[0]].popitem(last=False)
        self._level_of.pop(block, None)
        self._count -= 1
        return block

    def freeing(self, table: Sequence[int]) -> Iterable[int]:
        return reversed(table)

    def credit(self, blocks: Iterable[int], priority: int) -> None:
        for block in blocks:
            self._level_of[block] = min(priority, self._level_of.get(block, NO_CONTENT))

    def forget_all(self) -> None:
        self._begin(list(self))

    def levels(self) -> dict[int, int]:
        return dict(self._level_of)

    def __iter__(self) -> Iterator[int]:
        return (block for level in sorted(self._lists, reverse=True) for block in self._lists[level])

    def __len__(self) -> int:
        return self._count

    def __contains__(self, block: object) -> bool:
        return block in self._lists.get(self._level_of.get(block, NO_CONTENT), ())


def free_order(eviction: Eviction, num_blocks: int) -> FreeOrder:
    """The order of blocks 1..``num_blocks`` under a policy."""
    blocks = range(1, num_blocks + 1)
    if eviction == "priority":
        return LeastImportant(blocks)
    return {"lru": LeastRecent, "flat-lru": FlatLeastRecent}[eviction].fromkeys(blocks)
