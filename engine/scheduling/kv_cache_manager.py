"""Gives requests their block tables, and finds prefixes that are already computed.

A block table is append-only. Of a request with block size 4 that knows 11 tokens, of which 9 have been launched::

    tokens   t0 t1 t2 t3 | t4 t5 t6 t7 | t8 t9 t10 .
    blocks   table[0]    | table[1]    | table[2]
             full: hashed  full: hashed  not full: private to this request

Only full blocks whose token ids are known and whose writing step was launched are hashed. The hash of a block is
chained: it covers its ids and the hash of the block before it, so one look-up per block identifies a whole prefix.
"""

from array import array
from hashlib import blake2b

from engine.config import SchedulingConfig
from engine.request import Request
from engine.scheduling import swapping
from engine.scheduling.block_pool import BlockPool
from engine.scheduling.host_tier import HostTier
from engine.scheduling.swapping import IN_HOST


class KVCacheManager:
    """Block tables over one pool. Everything that changes the KV but is not a token id is part of each hash: what is
    the same for the whole pool as ``identity`` (model, KV dtype), the rest as ``Request.salt``."""

    def __init__(self, config: SchedulingConfig) -> None:
        self._worth = swapping.policy(config)
        self.host = HostTier(config.host_blocks) if self._worth else None
        self.pool = BlockPool(config.pool_blocks, config.eviction, self.host)
        self.identity = config.kv_identity
        self.block_size = config.block_size
        self.prefix_cache = config.prefix_cache
        self.table_entries = 0  # over all live tables

    def blocks_for(self, num_tokens: int) -> int:
        """Blocks that hold the KV of ``num_tokens`` tokens."""
        return -(-num_tokens // self.block_size)

    def full_blocks(self, request: Request) -> int:
        """Blocks of the table of ``request`` whose content outlives it: computed, full, and their ids known."""
        known = min(request.num_computed_tokens, request.num_tokens)
        return known // self.block_size if self.prefix_cache else 0

    def find_hits(self, request: Request) -> list[int]:
        """Blocks that hold the longest known prefix: whole blocks, and never the last token, which must be computed.
        ``IN_HOST`` stands for each one that must be copied in from the host."""
        if not self.prefix_cache:
            return []
        self._extend_hashes(request, (request.num_tokens - 1) // self.block_size)
        hits = []
        for content in request.block_hashes[: (request.num_tokens - 1) // self.block_size]:
            block = self.pool.find(content)
            if block is None:
                if self.host is None or content not in self.host:
                    break
                block = IN_HOST
            hits.append(block)
        return hits[: self._worth(hits)] if self.host is not None and IN_HOST in hits else hits

    def cost(self, num_blocks: int, hits: list[int]) -> int:
        """How many available blocks a table of ``num_blocks`` takes when it starts with ``hits``: the new ones, and
        the hits that nobody references now."""
        return num_blocks - sum(self.pool.refs[block] > 0 for block in hits)

    def open_table(self, request: Request, hits: list[int]) -> int:
        """Start the table of an admitted request with its hits; those in the host get blocks. Returns how many tokens
        are in the pool now: those before the first block that is copied in."""
        in_pool = hits.index(IN_HOST) if IN_HOST in hits else len(hits)
        for block in hits:
            if block != IN_HOST:
                self.pool.retain(block)
        request.blocks = list(hits) if in_pool == len(hits) else self._fetch(request, hits)
        request.num_hashed_blocks = in_pool
        self.table_entries += len(hits)
        return in_pool * self.block_size

    def _fetch(self, request: Request, hits: list[int]) -> list[int]:
        """``hits`` with a block for each that is in the host. The slots are claimed first: taking blocks evicts."""
        slots = [self.host.claim(request.block_hashes[i]) for i, block in enumerate(hits) if block == IN_HOST]
        blocks = self.pool.take(len(slots))
        self.host.copy_in(slots, blocks)
        fetched = iter(blocks)
        return [next(fetched) if block == IN_HOST else block for block in hits]

    def grow(self, request: Request, num_tokens: int) -> list[int]:
        """Append blocks until ``num_tokens`` tokens fit; return the new ones."""
        new_blocks = self.pool.take(self.blocks_for(num_tokens) - len(request.blocks))
        request.blocks += new_blocks
        self.table_entries += len(new_blocks)
        return new_blocks

    def hash_full_blocks(self, request: Request, num_written: int) -> bool:
        """Register the blocks that ``num_written`` tokens fill, as far as their ids are known. True when all are."""
        if not self.prefix_cache:
            return True
        full = min(num_written, request.num_tokens) // self.block_size
        self._extend_hashes(request, full)
        for index in range(request.num_hashed_blocks, full):
            self.pool.register(request.blocks[index], request.block_hashes[index])
        request.num_hashed_blocks = max(full, request.num_hashed_blocks)
        return request.num_hashed_blocks >= num_written // self.block_size

    def close_table(self, request: Request) -> None:
        """Free the table. Full blocks keep their content; writes of steps still in flight do not count: their results
        are dropped."""
        self.hash_full_blocks(request, request.num_computed_tokens)
        self.pool.release(request.blocks, self.full_blocks(request), request.priority)
        self.table_entries -= len(request.blocks)
        request.blocks = []
        request.num_hashed_blocks = 0

    def _extend_hashes(self, request: Request, num_blocks: int) -> None:
        hashes = request.block_hashes
        for index in range(len(hashes), num_blocks):
            parent = hashes[-1] if hashes else b"root %d " % request.salt + self.identity.encode()
            ids = request.token_ids[index * self.block_size : (index + 1) * self.block_size]
            hashes.append(block_hash(parent, ids))


def block_hash(parent: bytes, token_ids: list[int]) -> bytes:
    """Content hash of one full block behind ``parent``. Collision-resistant, ids in 64 bits each."""
    return blake2b(parent + array("q", token_ids).tobytes(), digest_size=16).digest()
