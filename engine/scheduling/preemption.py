"""Who loses its blocks when a running request needs one and none is available: the victim of a preemption."""

from collections.abc import Sequence
from typing import Protocol

from engine.config import SchedulingConfig
from engine.request import Request
from engine.scheduling.capacity import Shortage
from engine.scheduling.kv_cache_manager import KVCacheManager
from engine.scheduling.queue_order import QueueOrder
from engine.trace.events import Reason


class Victim(Protocol):
    """Chooses among the requests that hold a row. None of them has results in flight."""

    def choose(self, running: Sequence[Request]) -> Request:
        """The one to preempt. ``running`` is in admission order and not empty."""

    def shortage(self, request: Request, hits: Sequence[int], running: Sequence[Request]) -> Shortage | None:
        """Why ``request``, whose table would start with ``hits``, had better not enter now: it would be the next
        victim. None unless a policy knows that."""


class Newest(Victim):
    """``lifo``: the most recently admitted. Who came first always gets on."""

    def choose(self, running: Sequence[Request]) -> Request:
        return running[-1]


class LowestPriority(Victim):
    """The one that the queue order puts last; of equal ones the most recently admitted.

    Against thrashing, who enters leaves room for the next block of every running request that it would give way to.
    """

    def __init__(self, kv: KVCacheManager, order: QueueOrder) -> None:
        self.kv, self.order = kv, order

    def choose(self, running: Sequence[Request]) -> Request:
        return max(reversed(running), key=self.order.key)

    def shortage(self, request: Request, hits: Sequence[int], running: Sequence[Request]) -> Shortage | None:
        key = self.order.key
        before = sum(key(other) < key(request) for other in running)
        need, have = self.kv.cost(self.kv.blocks_for(request.num_tokens), hits) + before, self.kv.pool.available
        return (Reason.PRIORITY, need, have) if before and need > have else None


class Cheapest(Victim):
    """The one with the fewest tokens to compute again; of equal ones the most recently admitted.

    With the prefix cache its full blocks stay reclaimable and will be hit on resume, except the last one of the table,
    which is the next block handed out. Who would free no block at all, because all are shared, comes last.
    """

    def __init__(self, kv: KVCacheManager) -> None:
        self.kv = kv

    def choose(self, running: Sequence[Request]) -> Request:
        return min(reversed(running), key=self._price)

    def _price(self, request: Request) -> tuple[bool, int]:
        frees_nothing = all(self.kv.pool.refs[block] > 1 for block in request.blocks)
        kept = min(self.kv.full_blocks(request), len(request.blocks) - 1)
        return frees_nothing, request.num_computed_tokens - kept * self.kv.block_size


def policy(config: SchedulingConfig, kv: KVCacheManager, order: QueueOrder) -> Victim:
    """The preemption policy of a configuration. Where everybody is promised blocks nobody is ever chosen."""
    if config.capacity == "guaranteed-no-evict" or config.batching in ("static", "dynamic"):
        return Newest()
    return {
        "lifo": Newest,
        "lowest-priority": lambda: LowestPriority(kv, order),
        "cheapest": lambda: Cheapest(kv),
    }[config.preemption]()
