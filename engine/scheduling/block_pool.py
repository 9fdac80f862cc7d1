"""The pool of KV blocks: who holds them, which content they keep, and which are given away.

One list is both the free list and the eviction list (``eviction`` says in which order). A block that nobody references
stands in it; when its content is still addressable (it has a hash) it can be taken back by a prefix hit, until its turn
comes and it is evicted::

    front: handed out next                                   back: freed last
      [ 7 ][ 2 ][ 9#][ 4#][ 1#] ...                      # keeps its content: reclaimable
      '-free-' '--reclaimable--'                           available = free + reclaimable

All operations are O(1) per block. Block 0 is reserved (padding points there) and never given to anyone.
"""

from collections.abc import Iterable, Sequence

from engine.config import Eviction
from engine.scheduling.eviction import free_order
from engine.scheduling.host_tier import HostTier


class BlockPool:
    """Blocks 1..num_blocks with reference counts and a content index.

    ``newly_hashed`` and ``evicted`` collect what happened since the last step, for its trace records. ``host`` takes
    what is evicted; None: it is lost.
    """

    def __init__(self, num_blocks: int, eviction: Eviction = "lru", host: HostTier | None = None) -> None:
        self.num_blocks, self.host = num_blocks, host
        self.refs = [0] * (num_blocks + 1)
        self._unreferenced = free_order(eviction, num_blocks)
        self._hash_of: dict[int, bytes] = {}
        self._block_of: dict[bytes, int] = {}
        self.reclaimable = 0
        self.newly_hashed: dict[int, None] = {}
        self.evicted: list[int] = []

    @property
    def available(self) -> int:
        """Blocks that could be handed out now: free and reclaimable."""
        return len(self._unreferenced)

    @property
    def free(self) -> int:
        """Unreferenced blocks without content."""
        return len(self._unreferenced) - self.reclaimable

    def take(self, count: int) -> list[int]:
        """Hand out ``count`` blocks from the front, evicting what they still hold. The caller checked ``available``."""
        return [self._take_one() for _ in range(count)]

    def _take_one(self) -> int:
        block = self._unreferenced.take()
        self.refs[block] = 1
        if block in self._hash_of:
            self.reclaimable -= 1
            self._evict(block)
        return block

    def _evict(self, block: int) -> None:
        content = self._hash_of.pop(block)
        del self._block_of[content]
        if self.host is not None:
            self.host.put(content, block)
        if block in self.newly_hashed:  # no step has announced it: as if it had never been hashed
            del self.newly_hashed[block]
        else:
            self.evicted.append(block)

    def retain(self, block: int) -> None:
        """One more reference: a prefix hit. A reclaimable block leaves the free list with its content."""
        if self.refs[block] == 0:
            self._unreferenced.remove(block)
            self.reclaimable -= 1
        self.refs[block] += 1

    def release(self, table: Sequence[int], num_full: int = 0, priority: int = 0) -> None:
        """Drop one reference of each block of a table, whose first ``num_full`` hold content that a request of this
        ``priority`` used. Those that nobody holds any more go to the free list."""
        self._unreferenced.credit(table[:num_full], priority)
        for block in self._unreferenced.freeing(table):
            self.refs[block] -= 1
            if self.refs[block] == 0:
                self._unreferenced.put(block)
                self.reclaimable += block in self._hash_of

    def register(self, block: int, content: bytes) -> None:
        """Make a referenced full block addressable. Of equal blocks the first one stays the addressable one."""
        if content not in self._block_of and block not in self._hash_of:
            self._block_of[content] = block
            self._hash_of[block] = content
            self.newly_hashed[block] = None

    def find(self, content: bytes) -> int | None:
        """The block that holds this content, or None."""
        return self._block_of.get(content)

    def forget_all(self) -> None:
        """Drop the content of every block, referenced or not, and of the host."""
        self._hash_of.clear()
        self._block_of.clear()
        self.newly_hashed.clear()
        self._unreferenced.forget_all()
        self.reclaimable = 0
        if self.host is not None:
            self.host.forget_all()

    def leave_host(self) -> None:
        """The host gives up what has become addressable here since the last step."""
        if self.host is not None:
            self.host.drop(self._hash_of[block] for block in self.newly_hashed)

    def hashed(self) -> list[int]:
        """Addressable blocks that a step has announced, ascending."""
        return sorted(block for block in self._hash_of if block not in self.newly_hashed)

    def order(self) -> list[int]:
        """Unreferenced blocks in the order in which they would be handed out."""
        return list(self._unreferenced)

    def levels(self) -> dict[int, int]:
        """Block -> the priority that its content is worth, under the eviction policy that asks for it."""
        return self._unreferenced.levels()

    def check_integrity(self, tables: Iterable[Iterable[int]]) -> None:
        """Compare every count with the live block tables. Raises ``RuntimeError`` naming the first bad block."""
        held = [0] * (self.num_blocks + 1)
        for table in tables:
            for block in table:
                held[block] += 1
        for block in range(1, self.num_blocks + 1):
            if held[block] != self.refs[block]:
                raise RuntimeError(f"block {block}: {self.refs[block]} references, {held[block]} table entries")
            if (held[block] == 0) != (block in self._unreferenced):
                raise RuntimeError(f"block {block}: {held[block]} table entries, but on the free list is the opposite")
            if block in self._hash_of and self._block_of.get(self._hash_of[block]) != block:
                raise RuntimeError(f"block {block}: its hash leads to block {self._block_of.get(self._hash_of[block])}")
        for content, block in self._block_of.items():
            if self._hash_of.get(block) != content:
                raise RuntimeError(f"block {block}: addressable under a hash that is not its own")
        if self.reclaimable != sum(block in self._hash_of for block in self._unreferenced):
            raise RuntimeError(f"{self.reclaimable} blocks counted as reclaimable, which the free list contradicts")
