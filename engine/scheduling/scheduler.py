"""Decides, step by step, which requests run and how many tokens each.

One integer drives a request: ``num_scheduled_tokens`` (moved at launch) catches up with its tokens, and
``num_computed_tokens`` (moved at apply) follows. ``schedule`` reads top to bottom what happens in a step; each policy
stands in its own file: ``queue_order`` (who is first), ``batching`` (when requests enter and leave), ``capacity`` (who
may hold KV), ``preemption`` (who loses it), ``eviction`` (whose content goes), ``swapping`` (what comes back from the
host), ``microbatch`` (which tokens run); ``admission`` puts those to the queue. Semantics follow vLLM V1 and
TensorRT-LLM.
"""

from collections import deque
from collections.abc import Callable, Sequence

from engine.config import SchedulingConfig
from engine.request import Request, RequestState
from engine.scheduling import batching, capacity, preemption, queue_order
from engine.scheduling.admission import Admission
from engine.scheduling.answers import AnswerLimits
from engine.scheduling.kv_cache_manager import KVCacheManager
from engine.scheduling.microbatch import MicroBatchScheduler
from engine.scheduling.plan import Launched, StepPlan
from engine.scheduling.results import Applied, collect
from engine.scheduling.roster import Roster
from engine.scheduling.steady import SteadyDecode
from engine.step import Eager, StepInput, StepOutput
from engine.trace.events import KV, Cause, Event, Op, Reason, Refuse

GraphFor = Callable[[int, bool], tuple[int, Eager]]  # tokens, whether all rows decode -> padded tokens, why none


class Scheduler:
    """The queue, the rows and the blocks of one engine. Not thread-safe: the engine loop owns it.

    Args:
        config: limits and policies, with ``pool_blocks`` and ``max_model_len`` made concrete.
        emit: takes the trace records, in the order in which the decisions took effect.
        eos_ids: tokens that end an answer unless the request ignores them.
        graph_for: the worker's, for the record of a step; None: graphs exist as ``config.graph_buckets`` says.
    """

    def __init__(
        self,
        config: SchedulingConfig,
        emit: Callable[[Event], None],
        eos_ids: frozenset[int] = frozenset(),
        graph_for: GraphFor | None = None,
    ) -> None:
        self.config = config
        self.emit = emit
        self.answers = AnswerLimits(config, eos_ids)
        self.kv = KVCacheManager(config)
        self.gate, retire = batching.policies(config)
        room = capacity.policy(self.kv, config)
        self.micro_batch = MicroBatchScheduler(config)
        self._graph_for = graph_for or self.micro_batch.graph_for
        order = queue_order.policy(config)
        self.victim = preemption.policy(config, self.kv, order)
        self.roster = Roster(config, self.kv, room, retire, order, emit)
        self.admission = Admission(config, self.kv, self.gate, room, self.victim, self.micro_batch, self.roster)
        self._in_flight: deque[Launched] = deque()
        self._to_hash: list[Request] = []  # may hold full blocks that are not addressable yet
        self._steady: SteadyDecode | None = None
        self._step = 0
        self._head = (-1, int(Reason.NONE), 0, 0)

    # ---- requests come and go

    def refusal(self, request: Request) -> Refuse | None:
        """Why ``request`` can never run here, or None. A request that passes is sure to end."""
        return self.answers.refusal(request)

    def add(self, request: Request) -> None:
        """Queue a request that was not refused, with the bounds of its answer made concrete."""
        self.answers.set_on(request)
        request.state = RequestState.WAITING
        self.roster.enqueue(request)

    def finish(self, request_id: int, cause: Cause) -> bool:
        """End a request from outside: stop string, abort or error. False when it is unknown or has ended already."""
        request = self.roster.find(request_id)
        if request is None:
            return False
        if cause is Cause.ERROR and self.kv.host is not None:
            self.kv.host.doubt()
            self.roster.record_swaps()
        self.roster.end(request, cause)
        return True

    def reset_prefix_cache(self) -> None:
        """Forget all cached content. Running requests keep their own blocks."""
        self.kv.pool.forget_all()
        self.emit(KV(Op.RESET))

    # ---- a step is planned

    def schedule(self, now_ns: int) -> StepInput | None:
        """Plan the next step and count it as launched; None when nothing can be launched now.

        Running requests go first: each decoding row computes one token. Then waiting requests are admitted, and the
        rest of the token budget is divided among prompts. None with steps in flight means: apply them first.
        """
        if self.steps_in_flight > self.config.steps_in_flight:
            return None
        plan = StepPlan()
        self._hash_full_blocks()
        if self._steady and self._steady.goes_on(self.roster, self.kv.pool.available):
            self._steady.plan(plan, self.kv, self._to_hash)
        else:
            self._steady = None
            self._plan_decodes(plan)
        if self.roster.waiting:
            self.admission.admit_waiting(plan, self.steps_in_flight, now_ns)
        self._plan_chunks(plan)
        return None if plan.is_empty else self._launch(plan)

    def _hash_full_blocks(self) -> None:
        """Make blocks addressable whose writing step was launched, once all their token ids are known."""
        live = filter(batching.is_live, self._to_hash)
        self._to_hash = [r for r in live if not self.kv.hash_full_blocks(r, r.num_scheduled_tokens)]

    def _plan_decodes(self, plan: StepPlan) -> None:
        """Every row behind its prompt computes its next token, unless it lacks a block or awaits its last result.

        Longest context first: a device works through a step in this order, and what starts last should be short.
        """
        if self.gate.forms_groups and self.roster.prefilling:  # nobody decodes before the whole group is prefilled
            return
        running, block_size = self.roster.running, self.config.block_size
        ready = [r for r in running if r.num_tokens_at_admission <= r.num_scheduled_tokens < r.kv_limit]
        if not any(map(batching.is_live, ready)):  # padded rows alone compute nothing
            return
        self._append_blocks([r for r in ready if r.num_scheduled_tokens == len(r.blocks) * block_size], plan)
        if plan.preempted or plan.starved:
            ready = [r for r in ready if r.num_scheduled_tokens < len(r.blocks) * block_size]
        plan.decodes = sorted(ready, key=lambda request: request.num_scheduled_tokens, reverse=True)

    def _append_blocks(self, full: list[Request], plan: StepPlan) -> None:
        """Give the next block to running requests whose blocks are ``full``. If need be others are preempted, but not
        while results are in flight, which may free blocks: until they are applied who lacks a block sits out."""
        while not self._in_flight and len(full) > self.kv.pool.available:
            plan.preempted += 1
            lacking = full[self.kv.pool.available]
            self.roster.preempt(self.victim.choose(self.roster.running), lacking, need=len(full))
            full = [request for request in full if request.row >= 0]
        for request in full:
            if not self.kv.hash_full_blocks(request, request.num_scheduled_tokens):
                self._to_hash.append(request)
            if self.kv.pool.available:
                plan.add_blocks(request.row, self.kv.grow(request, request.num_scheduled_tokens + 1))
            else:
                plan.starved += 1

    def _plan_chunks(self, plan: StepPlan) -> None:
        """Divide what the decodes left of the token budget among the prompts."""
        prefilling = self.roster.prefilling
        sizes = self.micro_batch.chunks([r.num_to_prefill for r in prefilling], len(plan.decodes))
        plan.chunks = [(request, tokens) for request, tokens in zip(prefilling, sizes) if tokens]

    def _launch(self, plan: StepPlan) -> StepInput:
        """The plan becomes a step in flight, with its records."""
        pool = self.kv.pool
        self._step += 1
        tokens = plan.total_tokens
        bucket, eager_reason = self._graph_for(tokens, tokens == plan.num_rows)
        if pool.evicted:
            self.emit(KV(Op.EVICT, pool.evicted))
        pool.leave_host()
        self.roster.record_swaps()
        record = plan.record(self.roster, self.config.token_budget, (bucket, eager_reason), pool)
        self.emit(record)
        pool.evicted, pool.newly_hashed = [], {}
        self._head = plan.head
        if self._steady and not plan.chunks:
            step_input, launched = self._steady.launch(self._step, plan, bucket)
        else:
            step_input, launched = plan.launch(self._step, bucket)
            self._steady = SteadyDecode.after(plan, self.roster, self.config.block_size)
        if self.kv.host is not None:
            step_input.copy_out, step_input.copy_in = self.kv.host.launch()
        self._in_flight.append(launched)
        self._to_hash += [request for request, _ in plan.chunks]
        if self.roster.prefilling:
            self.roster.prefilling = [r for r in self.roster.prefilling if r.num_to_prefill > 0]
        return step_input

    # ---- results arrive

    def apply(self, output: StepOutput, now_ns: int) -> Sequence[Applied]:
        """Take in the results of the oldest step in flight, and end the answers that they complete.

        Rows that were preempted, finished or aborted since the launch, and padded rows, are dropped and recorded.
        ``now_ns`` is injected as everywhere; no policy looks at it here. Raises ``RuntimeError`` out of launch order.
        """
        launched = self._in_flight.popleft()
        if launched.step != output.step:
            raise RuntimeError(f"results of step {output.step} arrived, those of step {launched.step} are due")
        if self.kv.host is not None:
            self.kv.host.applied()
        steady = launched.steady and launched.steady.collect(output, self.roster)
        if steady:
            self.emit(steady[0])
            return steady[1]
        record, applied = collect(output, launched.settle(), self.answers)
        self.emit(record)
        for entry in applied:
            if entry.cause:
                self.roster.end(entry.request, entry.cause)
        return applied

    # ---- what others may ask

    @property
    def has_work(self) -> bool:
        """Whether anything waits, runs or is in flight."""
        return bool(self.roster.waiting or self.roster.running or self._in_flight)

    @property
    def steps_in_flight(self) -> int:
        """Steps launched and not applied."""
        return len(self._in_flight)

    def next_wake_ns(self, now_ns: int) -> int | None:
        """When the closed gate opens by time; None when only an arrival or a result can change anything."""
        opens = None if self.roster.running or self._in_flight else self.gate.opens_at_ns(self.roster.waiting)
        return None if opens is None else max(opens, now_ns)

    def snapshot(self) -> dict:
        """The whole state as plain values: what the fold of the trace must arrive at."""
        pool = self.kv.pool
        return self.roster.snapshot() | {
            "step": self._step,
            "free": pool.order(),
            "refs": {block: count for block, count in enumerate(pool.refs) if count},
            "hashed": pool.hashed(),
            "levels": pool.levels(),
            "host": self.kv.host.held() if self.kv.host is not None else [],
            "head": self._head,
        }
