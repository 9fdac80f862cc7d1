"""Random recorded runs: the real scheduler with a worker that draws tokens."""

import json
import random
from collections import deque
from collections.abc import Callable
from dataclasses import asdict, dataclass, field

import numpy as np

from engine.config import SchedulingConfig
from engine.request import Request, SamplingParams
from engine.scheduling.scheduler import Scheduler
from engine.step import StepInput, StepOutput
from engine.trace.events import Arrive, Cause, Cmd, Op, Record, Run
from engine.trace.recorder import ListSink, Recorder
from engine.trace.timeline import Timeline, split_runs

BATCHINGS = ("in-flight", "dynamic", "static", "static-shrinking")
EOS = 7


@dataclass
class Scenario:
    """What one random run is made of; ``draw`` makes one from a seed."""

    config: SchedulingConfig
    prompts: list[list[int]]
    priorities: list[int]
    params: list[SamplingParams]
    arrivals: list[int]  # step before which each request comes
    aborts: dict[int, int] = field(default_factory=dict)  # request -> step
    resets: set[int] = field(default_factory=set)
    vocabulary: int = 10

    @classmethod
    def draw(cls, seed: int, requests: int | None = None) -> "Scenario":
        """A small, busy run: tiny pool, shared prefixes, staggered arrivals, aborts, resets."""
        rng = random.Random(seed)
        rows = rng.randint(1, 5)
        config = SchedulingConfig(
            pool_blocks=rng.randint(6, 30),
            block_size=rng.randint(1, 6),
            max_num_seqs=rows,
            token_budget=rows + rng.randint(0, 20),
            max_model_len=80,
            watermark=rng.choice((0.0, 0.05, 0.2)),
            batching=rng.choice(BATCHINGS),
            capacity=rng.choice(("max-utilization", "guaranteed-no-evict")),
            chunking=rng.choice(("fcfs", "equal")),
            preemption=rng.choice(("lifo", "lowest-priority", "cheapest")),
            queue_order=rng.choice(("priority", "priority", "deadline")),
            aging_s=rng.choice((0.0, 0.0, 0.002)),
            prefix_cache=rng.random() < 0.7,
            eviction=rng.choice(("lru", "lru", "priority", "flat-lru")),
            wait_for_prefix=rng.random() < 0.3,
            window_ms=rng.choice((0.0, 3.0)),
            steps_in_flight=rng.choice((0, 0, 1, 2)),
            host_blocks=rng.choice((0, 3, 30)),
            swap="always",
        )
        count = requests or rng.randint(1, 14)
        shared = [rng.randrange(10) for _ in range(20)]
        prompts = [
            shared[: rng.randint(0, 12)] + [rng.randrange(10) for _ in range(rng.randint(1, 9))] for _ in range(count)
        ]
        params = [SamplingParams(max_tokens=rng.randint(1, 25), ignore_eos=rng.random() < 0.5) for _ in range(count)]
        arrivals = [rng.randint(0, 15) for _ in range(count)]
        aborts = {i: rng.randint(0, 30) for i in range(count) if rng.random() < 0.15}
        priorities = [rng.choice((0, 0, 0, -1, 3)) for _ in range(count)]
        return cls(
            config, prompts, priorities, params, arrivals, aborts, {rng.randint(1, 20)} if rng.random() < 0.2 else set()
        )


class Played:
    """A scenario played to its end. ``check`` is called with the scheduler whenever the trace must agree with it."""

    def __init__(
        self, scenario: Scenario, check: Callable[["Played"], None] = lambda played: None, seed: int = 0
    ) -> None:
        self.scenario, self._check = scenario, check
        self.sink = ListSink()
        self.now_ns = 0
        self.recorder = Recorder([self.sink], lambda: self.now_ns, lambda token: b"t%d " % token)
        self._rng = random.Random(seed)
        self._outputs: deque[StepOutput] = deque()
        self._live: dict[int, Request] = {}
        info = {"config": {"scheduling": asdict(scenario.config), "pool_blocks": 64}, "model": "none", "device": "cpu"}
        self.recorder.emit(Run(json.dumps(info).encode()))
        self.scheduler = Scheduler(scenario.config, self.recorder.emit, frozenset({EOS}))
        self._play()

    @property
    def records(self) -> list[Record]:
        """The trace."""
        return self.sink.records

    @property
    def timeline(self) -> Timeline:
        """The trace as a timeline."""
        return split_runs(self.records)[0]

    def live_requests(self) -> list[Request]:
        """Requests that wait or hold a row."""
        names = self.scheduler.snapshot()["requests"]
        return [self._live[request] for request in names]

    def _play(self) -> None:
        for tick in range(5_000):
            self.now_ns += self._rng.randint(1, 2_000_000)
            self._arrive(tick)
            self._disturb(tick)
            step = self.scheduler.schedule(self.now_ns)
            if step is not None:
                self._outputs.append(self._run(step))
                self._check(self)
            if self._outputs and (step is None or len(self._outputs) > self.scenario.config.steps_in_flight):
                self._apply()
            if tick > 15 and not self.scheduler.has_work and not self._outputs:
                return
        raise AssertionError("the run did not end")

    def _arrive(self, tick: int) -> None:
        scenario = self.scenario
        for i in [i for i, at in enumerate(scenario.arrivals) if at == tick]:
            params, priority = scenario.params[i], scenario.priorities[i]
            request = Request(i, scenario.prompts[i], params, params.max_tokens, i, f"r{i}", priority)
            request.arrived_ns = self.now_ns
            self.recorder.emit_pieces(request.prompt_ids)
            self.recorder.emit(Arrive(i, request.max_tokens, priority, i, request.name.encode(), request.prompt_ids))
            refusal = self.scheduler.refusal(request)
            if refusal:
                self.recorder.emit(refusal)
            else:
                self._live[i] = request
                self.scheduler.add(request)

    def _disturb(self, tick: int) -> None:
        for request in [i for i, at in self.scenario.aborts.items() if at == tick]:
            self.scheduler.finish(request, Cause.ABORT)
            self._check(self)
        if tick in self.scenario.resets:
            self.scheduler.reset_prefix_cache()
        if tick == 8:
            self.recorder.emit(Cmd(Op.PAUSE))
            self.recorder.emit(Cmd(Op.RESUME))

    def _run(self, step: StepInput) -> StepOutput:
        sampled = np.flatnonzero(step.samples)
        tokens = [self._rng.randrange(self.scenario.vocabulary) for _ in sampled]
        return StepOutput(step.step, step.rows[sampled], step.epochs[sampled], np.array(tokens, np.int32))

    def _apply(self) -> None:
        self.now_ns += self._rng.randint(1, 3_000_000)
        output = self._outputs.popleft()
        self.recorder.emit_pieces(output.token_ids.tolist())
        self.scheduler.apply(output, self.now_ns)
        self._check(self)
