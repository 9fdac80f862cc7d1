"""Who may hold KV: how many blocks must be there before a waiting request gets a row.

Every policy demands room for all tokens known at admission; they differ in what is promised beyond that.
"""

from collections.abc import Sequence
from math import ceil
from typing import Protocol

from engine.config import SchedulingConfig
from engine.request import Request
from engine.scheduling.kv_cache_manager import KVCacheManager
from engine.trace.events import Reason

Shortage = tuple[Reason, int, int]  # why not, how much is needed, how much there is


class Capacity(Protocol):
    """Decides whether the head of the queue fits, and keeps count of what running requests were promised."""

    def shortage(self, request: Request, hits: Sequence[int], anything_runs: bool) -> Shortage | None:
        """Why ``request``, whose table would start with ``hits``, does not fit now; None when it does."""

    def admitted(self, request: Request) -> None:
        """``request`` got a row. Nothing to count unless a policy says so."""

    def left(self, request: Request) -> None:
        """``request`` gave its blocks back. Nothing to count unless a policy says so."""


class MaxUtilization(Capacity):
    """Promises nothing: as many requests run as fit now; when they outgrow the pool, the newest is preempted.

    The watermark keeps a share of the pool for their growth, so that admissions do not provoke preemptions.
    """

    def __init__(self, kv: KVCacheManager, config: SchedulingConfig) -> None:
        self.kv = kv
        self.watermark = ceil(config.watermark * config.pool_blocks)

    def shortage(self, request: Request, hits: Sequence[int], anything_runs: bool) -> Shortage | None:
        need = self.kv.cost(self.kv.blocks_for(request.num_tokens), hits)
        have = self.kv.pool.available
        if need > have:
            return Reason.NO_FREE_BLOCKS, need, have
        if anything_runs and need + self.watermark > have:
            return Reason.WATERMARK, need + self.watermark, have
        return None


class GuaranteedNoEvict(Capacity):
    """Promises every request the blocks of its longest possible answer, so nobody is ever preempted."""

    def __init__(self, kv: KVCacheManager, config: SchedulingConfig) -> None:
        self.kv = kv
        self.promised = 0  # blocks, over all running requests; what they hold already is part of it

    def shortage(self, request: Request, hits: Sequence[int], anything_runs: bool) -> Shortage | None:
        need = self.kv.cost(self.kv.blocks_for(request.kv_limit), hits)
        have = self.kv.pool.available - (self.promised - self.kv.table_entries)
        return (Reason.RESERVED_FOR_RUNNING, need, have) if need > have else None

    def admitted(self, request: Request) -> None:
        self.promised += self.kv.blocks_for(request.kv_limit)

    def left(self, request: Request) -> None:
        self.promised -= self.kv.blocks_for(request.kv_limit)


class GroupReservation(Capacity):
    """Promises every row of a padded group its prompt and the longest answer of the group, which all rows compute.

    A longer newcomer makes all rows longer, so the group is counted again. Prefix hits are not deducted.
    """

    def __init__(self, kv: KVCacheManager, config: SchedulingConfig) -> None:
        self.kv = kv
        self.pool_blocks = config.pool_blocks
        self.max_model_len = config.max_model_len
        self.group: list[Request] = []
        self.longest = 0  # tokens, of the group's longest answer
        self.reserved = 0  # blocks, of the group

    def shortage(self, request: Request, hits: Sequence[int], anything_runs: bool) -> Shortage | None:
        longest, reserved = self._with(request)
        need = self._blocks(request, longest)
        have = self.pool_blocks - reserved
        return (Reason.RESERVED_FOR_RUNNING, need, have) if need > have else None

    def admitted(self, request: Request) -> None:
        self.longest, reserved = self._with(request)
        self.reserved = reserved + self._blocks(request, self.longest)
        self.group.append(request)

    def left(self, request: Request) -> None:
        self.group.remove(request)
        if not self.group:
            self.longest = self.reserved = 0

    def _with(self, request: Request) -> tuple[int, int]:
        """Longest answer with this member too, and the blocks of the present group at that length."""
        answer = request.kv_limit + 1 - request.num_prompt_tokens
        if answer <= self.longest:
            return self.longest, self.reserved
        return answer, sum(self._blocks(member, answer) for member in self.group)

    def _blocks(self, request: Request, answer: int) -> int:
        return self.kv.blocks_for(min(request.num_prompt_tokens + answer, self.max_model_len) - 1)


def policy(kv: KVCacheManager, config: SchedulingConfig) -> Capacity:
    """The capacity policy of a configuration; padded groups reserve for themselves."""
    if config.batching in ("static", "dynamic"):
        return GroupReservation(kv, config)
    return {"max-utilization": MaxUtilization, "guaranteed-no-evict": GuaranteedNoEvict}[config.capacity](kv, config)
