"""Scheduler and TorchWorker in the smallest loop that serves requests: what the tests of whole answers drive."""

from dataclasses import dataclass, field, replace

from engine.config import SchedulingConfig
from engine.request import Request, SamplingParams
from engine.scheduling.scheduler import Scheduler
from engine.trace.events import Cause, Event, Kind
from engine.worker.runner import TorchWorker
from tests.worker.checkpoints import LIMITS

ROOMY = replace(LIMITS, pool_blocks=80)


@dataclass
class Served:
    """Answers in submission order, why each ended, and the trace."""

    token_ids: list[list[int]]
    causes: list[Cause | None]
    cached: list[int]
    events: list[Event] = field(repr=False)

    def count(self, kind: Kind, **values: int) -> int:
        """Records of a kind whose fields have these values."""
        return sum(kind == e.KIND and all(getattr(e, k) == v for k, v in values.items()) for e in self.events)


class Loop:
    """One engine run; requests may be added between calls of ``step``."""

    def __init__(self, worker: TorchWorker, **limits) -> None:
        self.scheduling: SchedulingConfig = replace(ROOMY, **limits).validate()
        worker.reset(self.scheduling)
        self.worker, self.events, self.now = worker, [], 0
        self.scheduler = Scheduler(worker.scheduling, self.events.append, worker.spec.eos_ids, worker.graph_for)
        self.requests: list[Request] = []
        self.causes: dict[int, Cause] = {}
        self._results: list = []

    def add(self, prompt: list[int], params: SamplingParams, seed: int = 0) -> Request:
        request = Request(len(self.requests), prompt, params, params.max_tokens, seed)
        assert self.scheduler.refusal(request) is None
        self.scheduler.add(request)
        self.requests.append(request)
        return request

    def step(self) -> None:
        """Launch one step if one can be; apply the oldest when too many are in flight, or none was launched."""
        self.now += 1_000_000
        step = self.scheduler.schedule(self.now)
        if step is not None:
            self.worker.launch(step)
        late = self.scheduler.steps_in_flight > self.scheduling.steps_in_flight
        if (late or step is None) and self.scheduler.steps_in_flight:
            self._results += self.worker.poll() if not self._results else []
            for applied in self.scheduler.apply(self._results.pop(0), self.now):
                if applied.cause is not None:
                    self.causes[applied.request.id] = applied.cause

    def run(self, most_steps: int = 3000) -> Served:
        """Step until every request has ended."""
        for _ in range(most_steps):
            if not self.scheduler.has_work:
                break
            self.step()
        assert not self.scheduler.has_work, "requests left over"
        outputs = [request.output_ids for request in self.requests]
        causes = [self.causes.get(request.id) for request in self.requests]
        return Served(outputs, causes, [request.num_cached_tokens for request in self.requests], self.events)


def serve(worker: TorchWorker, prompts: list[list[int]], params: SamplingParams, **limits) -> Served:
    """All prompts at once, seeds 0, 1, ..."""
    loop = Loop(worker, **limits)
    for seed, prompt in enumerate(prompts):
        loop.add(prompt, params, seed)
    return loop.run()
