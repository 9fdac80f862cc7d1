"""Drives a scheduler and the KV oracle through one workload, checking every invariant at every step."""

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field

from engine.config import SchedulingConfig
from engine.request import Request, RequestState, SamplingParams
from engine.scheduling import Applied, Scheduler
from engine.scheduling.batching import is_live
from engine.step import StepInput
from engine.trace.events import Admit, Arrive, Cause, Event, Leave, Reason, Record, Run, Step
from engine.trace.state import State
from tests.scheduling.oracle import EOS, LaunchFailed, OracleWorker

STEP_NS = 1_000_000
MAX_ROUNDS = 20_000


def make_request(number: int, prompt: Sequence[int], max_tokens: int, **fields: object) -> Request:
    """A request that ends only by its length, unless ``fields`` (of ``SamplingParams`` or ``Request``) say more."""
    own = {name: fields.pop(name) for name in ("priority", "salt") if name in fields}
    params = SamplingParams(**{"ignore_eos": True} | fields)
    return Request(number, list(prompt), params, max_tokens, seed=0, **own)


@dataclass
class Simulation:
    """One engine loop over the oracle. ``stop_pair``: two tokens that stand for a stop string.

    ``lag`` says, each round, how many steps may stay in flight (at most ``config.steps_in_flight``).
    """

    config: SchedulingConfig
    stop_pair: tuple[int, int] | None = None
    lag: Callable[[], int] | None = None
    checks: bool = True  # False: the oracle alone must see what is wrong
    now_ns: int = 0
    events: list[Event] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)
    refused: dict[int, Reason] = field(default_factory=dict)
    ended: dict[int, Cause] = field(default_factory=dict)
    steps: list[StepInput] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.config.validate()
        self._planned_from = 0  # event with which the current call of schedule() began
        self.scheduler = Scheduler(self.config, self._emit, frozenset({EOS}))
        self.worker = OracleWorker(self.config.pool_blocks, self.config.block_size, self.config.host_blocks)
        self.state = State()
        self._emit(Run(json.dumps({"config": {"scheduling": asdict(self.config)}}).encode()))

    # ---- what a caller of the engine does

    def submit(self, request: Request) -> bool:
        """Queue a request; False when it is refused."""
        request.arrived_ns = self.now_ns
        self.requests.append(request)
        ids = list(request.prompt_ids)
        self._emit(Arrive(request.id, request.max_tokens, request.priority, request.seed, b"", ids))
        refuse = self.scheduler.refusal(request)
        if refuse:
            request.state = RequestState.REFUSED
            self.refused[request.id] = Reason(refuse.reason)
            self._emit(refuse)
            return False
        self.scheduler.add(request)
        return True

    def finish(self, request: Request, cause: Cause) -> bool:
        """End a request from outside."""
        done = self.scheduler.finish(request.id, cause)
        if done:
            assert request.id not in self.ended, f"request {request.id} ended twice"
            self.ended[request.id] = cause
        self._check_state()
        return done

    def reset_prefix_cache(self) -> None:
        """Drop all cached content."""
        self.scheduler.reset_prefix_cache()
        self._check_state()

    def run(self) -> None:
        """Until nothing is left to do."""
        for _ in range(MAX_ROUNDS):
            if not self.round():
                return
        raise AssertionError(f"no end after {MAX_ROUNDS} rounds: {self.scheduler.snapshot()}")

    def run_each(self, *requests: Request) -> None:
        """One request after the other."""
        for request in requests:
            assert self.submit(request)
            self.run()

    def round(self, sleep: bool = True) -> bool:
        """Launch one step if possible, apply what is due. With nothing to do ``sleep`` until the gate opens by time.
        False when nothing will ever change by itself (without ``sleep``: when nothing was done)."""
        self.now_ns += STEP_NS
        self._planned_from = len(self.events)
        step = self.scheduler.schedule(self.now_ns)
        if step is not None:
            self._check_step(step)
            self._launch(step)
        allowed = 0 if step is None else self.lag() if self.lag else self.config.steps_in_flight
        if self.scheduler.steps_in_flight > allowed:
            self._apply_one()
        elif step is None:
            return sleep and self._wait()
        return True

    # ---- the loop's parts

    def _launch(self, step: StepInput) -> None:
        try:
            self.worker.launch(step)
        except LaunchFailed:  # what the rows hold is unknown: everything that runs ends
            self.worker.skip(step)
            for request in list(self.scheduler.roster.running):
                self.finish(request, Cause.ERROR)

    def _apply_one(self) -> None:
        output = self.worker.poll()
        for applied in self.scheduler.apply(output, self.now_ns):
            self._take(applied)
        self._check_state()
        self._check_blocks()

    def _take(self, applied: Applied) -> None:
        request = applied.request
        assert applied.token_ids
        if applied.cause:
            assert request.id not in self.ended, f"request {request.id} ended twice"
            self.ended[request.id] = applied.cause
        elif self.stop_pair and tuple(request.output_ids[-2:]) == self.stop_pair and self._may_stop(request):
            assert self.finish(request, Cause.STOP)

    @staticmethod
    def _may_stop(request: Request) -> bool:
        return request.params.forced_output_length is None

    def _wait(self) -> bool:
        """Nothing can be launched and nothing is in flight: only time may help."""
        wake = self.scheduler.next_wake_ns(self.now_ns)
        if wake is None:
            assert not self.scheduler.has_work, f"stuck: {self.scheduler.snapshot()}"
            return False
        assert wake > self.now_ns, "the gate says it is open by now"
        self.now_ns = wake
        return True

    def _emit(self, event: Event) -> None:
        self.events.append(event)
        if self.checks:
            self._check_event(event)
            self.state.apply(Record(len(self.events), self.now_ns, len(self.steps), event))

    # ---- invariants

    def _check_event(self, event: Event) -> None:
        """Who may be preempted, and who may enter: judged by the fold of everything before."""
        if isinstance(event, Leave) and event.cause == Cause.PREEMPT:
            assert self.config.capacity == "max-utilization", "preempted although it was guaranteed its blocks"
            assert self.config.batching in ("in-flight", "static-shrinking"), "preempted in a padded group"
            assert self._victim() == event.request, f"not the {self.config.preemption} victim"
            assert event.for_request in self.state.running and self.scheduler.steps_in_flight == 0
        if isinstance(event, Admit):
            assert self.state.waiting[0] == event.request, "not the head of the queue"
            planned = (e for e in self.events[self._planned_from :] if isinstance(e, Leave))
            assert not any(leave.cause == Cause.PREEMPT for leave in planned), "admitted in a step that preempted"

    def _victim(self) -> int:
        """Whom the preemption policy must choose, from the state before."""
        ranks = {"lifo": lambda _: 0, "lowest-priority": self.state.queue_key, "cheapest": self._cheapness}
        return max(reversed(self.state.running), key=ranks[self.config.preemption])

    def _cheapness(self, request: int) -> float:
        """Minus the tokens to compute again when a request is preempted and one block of its own is taken."""
        view = self.state.requests[request]
        if all(self.state.pool.refs[block] > 1 for block in view.blocks):
            return -math.inf  # there is nothing to take
        full = [i for i in range(len(view.blocks) - 1) if (i + 1) * self.config.block_size <= view.num_computed]
        return len(full) * self.config.block_size * self.config.prefix_cache - view.num_computed

    def _check_step(self, step: StepInput) -> None:
        """Budget, group prefill, limits, and the blocks after planning."""
        self.steps.append(step)
        if not self.checks:
            return
        config, roster = self.config, self.scheduler.roster
        assert step.step == len(self.steps)
        assert 0 < step.total_tokens <= config.token_budget
        record = next(event for event in reversed(self.events) if isinstance(event, Step))
        assert (record.used, record.budget) == (step.total_tokens, config.token_budget)
        assert any(map(is_live, roster.running)), "a step in which only padded rows run"
        by_row = {request.row: request for request in roster.running}
        assert len(by_row) == len(roster.running) <= config.max_num_seqs
        for row, start, count in zip(step.rows.tolist(), step.starts.tolist(), step.num_tokens.tolist()):
            assert start + count <= config.max_model_len - 1
            if is_live(by_row[row]):
                assert start + count <= by_row[row].kv_limit, "launched past max_tokens or the context"
        if config.batching != "in-flight":
            assert not (record.chunk_rows and (record.joined or len(step.rows) > len(record.chunk_rows))), "mixed"
        self._check_blocks()
        self._check_state()

    def _check_blocks(self) -> None:
        if not self.checks:
            return
        pool, running = self.scheduler.kv.pool, self.scheduler.roster.running
        pool.check_integrity(request.blocks for request in running)
        referenced = sum(count > 0 for count in pool.refs)
        assert pool.free + pool.reclaimable + referenced == self.config.pool_blocks
        if (host := self.scheduler.kv.host) is not None:
            host.check_integrity()
            twice = {block for content, block in pool._block_of.items() if content in host}
            assert twice <= pool.newly_hashed.keys(), "content in pool and host"
        assert self.scheduler.kv.table_entries == sum(len(request.blocks) for request in running)

    def _check_state(self) -> None:
        """The fold of the trace is the scheduler's own state."""
        if self.checks:
            assert self.state.snapshot() == self.scheduler.snapshot()

    # ---- what tests ask

    def of(self, kind: type) -> list:
        """All events of one kind."""
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def free(self) -> int:
        """Blocks that could be handed out now."""
        return self.scheduler.kv.pool.available
