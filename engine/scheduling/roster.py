"""Who waits, who holds a row, and how requests move between the two. Every move writes its trace record."""

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush

from engine.config import SchedulingConfig
from engine.request import Request, RequestState
from engine.scheduling.batching import Retire
from engine.scheduling.capacity import Capacity
from engine.scheduling.kv_cache_manager import KVCacheManager
from engine.scheduling.queue_order import QueueOrder
from engine.trace.events import Admit, Cause, Event, Leave

END_STATES = {Cause.ABORT: RequestState.ABORTED, Cause.ERROR: RequestState.ABORTED}  # all others: FINISHED


class Roster:
    """The queue and the rows. A request is in ``waiting`` or in ``running`` until its answer ends; the row of an ended
    answer may stay in ``running`` as padded until its group ends."""

    def __init__(
        self,
        config: SchedulingConfig,
        kv: KVCacheManager,
        capacity: Capacity,
        retire: Retire,
        order: QueueOrder,
        emit: Callable[[Event], None],
    ) -> None:
        self.config, self.kv, self.capacity, self.retire, self.emit = config, kv, capacity, retire, emit
        self.order = order
        self.waiting: deque[Request] = deque()
        self.running: list[Request] = []  # admission order
        self.prefilling: list[Request] = []  # those of ``running`` that have not launched their whole prompt
        self.free_rows = list(range(config.max_num_seqs))  # a heap: the lowest row is given first
        self._live: dict[int, Request] = {}  # by id, until the answer ends
        self.moves = 0  # how often anybody got a row, lost it, or ended in it

    def enqueue(self, request: Request) -> None:
        """Into the queue, behind its equals: O(1) for who comes last, else a bisection."""
        self._live[request.id] = request
        waiting, key = self.waiting, self.order.key
        if not waiting or key(waiting[-1]) <= key(request):
            waiting.append(request)
        else:
            waiting.insert(bisect_right(waiting, key(request), key=key), request)

    def find(self, request_id: int) -> Request | None:
        """The request, unless it is unknown or its answer has ended."""
        return self._live.get(request_id)

    def admit_head(self, hits: list[int]) -> Request:
        """Give the head of the queue the lowest free row, and a block table that starts with its prefix hits."""
        request = self.waiting.popleft()
        resumed = request.state is RequestState.PREEMPTED
        cached = len(hits) * self.config.block_size
        request.state = RequestState.RUNNING
        request.row = heappop(self.free_rows)
        request.num_tokens_at_admission = request.num_tokens
        request.num_cached_tokens = request.num_scheduled_tokens = cached
        self.moves += 1
        request.num_computed_tokens = self.kv.open_table(request, hits)
        self.capacity.admitted(request)
        self.running.append(request)
        self.prefilling.append(request)
        self.record_swaps()
        self.emit(Admit(request.id, request.row, request.epoch, int(resumed), cached, list(request.blocks)))
        return request

    def record_swaps(self) -> None:
        """Write what moved between pool and host since the last time."""
        for record in self.kv.host.records() if self.kv.host is not None else ():
            self.emit(record)

    def preempt(self, request: Request, for_request: Request, need: int) -> None:
        """``request`` loses its blocks and goes back into the queue, in front of its equals; its tokens stay. ``need``
        blocks were needed, the first one that was not there ``for_request``."""
        lost, have = request.num_computed_tokens, self.kv.pool.available
        self._leave(request, Cause.PREEMPT, for_request=for_request.id, lost_tokens=lost, need=need, have=have)
        request.state = RequestState.PREEMPTED
        request.num_scheduled_tokens = request.num_computed_tokens = 0
        request.num_preemptions += 1
        place = bisect_left(self.waiting, self.order.key(request), key=self.order.key)
        self.waiting.insert(place, request)

    def end(self, request: Request, cause: Cause) -> None:
        """The answer of a live request ends. Its row is given back now or with its group, as ``retire`` says."""
        del self._live[request.id]
        if request.row < 0:
            self.waiting.remove(request)
            request.epoch += 1
            self.emit(Leave(request.id, -1, request.epoch, cause))
        elif self.retire.keeps_row(request, cause, self.running):
            self._leave(request, cause, keeps_row=1)
            request.kv_limit = self.config.max_model_len - 1  # padded until its group ends or its context is full
        else:
            self._leave(request, cause)
        request.state = END_STATES.get(cause, RequestState.FINISHED)
        for padded in self.retire.group_end(self.running):
            self._leave(padded, Cause.GROUP_END)

    def _leave(self, request: Request, cause: Cause, keeps_row: int = 0, **details: int) -> None:
        """Results in flight become stale; row and blocks are given back unless the row is kept."""
        late = 0 if cause is Cause.GROUP_END else request.num_in_flight_samples
        request.epoch += 1
        self.moves += 1
        self.emit(Leave(request.id, request.row, request.epoch, cause, keeps_row, late, **details))
        if keeps_row:
            return
        self.kv.close_table(request)
        self.capacity.left(request)
        self.running.remove(request)
        if request in self.prefilling:
            self.prefilling.remove(request)
        heappush(self.free_rows, request.row)
        request.row = -1

    def snapshot(self) -> dict:
        """Queue, rows and the facts of every request in them, as plain values."""
        return {
            "waiting": [request.id for request in self.waiting],
            "running": [request.id for request in self.running],
            "requests": {request.id: _facts(request) for request in (*self.waiting, *self.running)},
        }


def _facts(request: Request) -> tuple:
    return (
        int(request.state),
        request.row,
        request.epoch,
        request.num_computed_tokens,
        request.num_scheduled_tokens,
        request.num_tokens,
        tuple(request.blocks),
    )
