"""The real scheduler on a virtual clock: which steps a workload takes, and how long they would take at a given cost.

No model and no device. The race uses it to predict each factor of the gain without having run that schedule.
"""

from collections import deque
from collections.abc import Sequence

import numpy as np

from engine.config import SchedulingConfig
from engine.request import Request
from engine.scheduling.scheduler import Scheduler
from engine.step import StepOutput
from engine.trace.events import Arrive, Event, Record, Step
from engine.trace.gain import StepCost, StepFacts, StepFold
from engine.workload.items import Item


class _VirtualRun:
    """Owns the clock, the queue of arrivals and the records of one simulated run."""

    def __init__(self, items: Sequence[Item], scheduling: SchedulingConfig, cost: StepCost) -> None:
        self.cost = cost
        self.now_ns = 0
        self.step = 0
        self.records = 0
        self.fold = StepFold()
        self.scheduler = Scheduler(scheduling, self.emit)
        requests = [_request(index, item) for index, item in enumerate(items)]
        self.arrivals = deque(sorted(requests, key=lambda request: request.arrived_ns))

    def emit(self, event: Event) -> None:
        self.step += isinstance(event, Step)
        self.fold.feed(Record(self.records, self.now_ns, self.step, event))
        self.records += 1

    def admit_arrivals(self) -> None:
        while self.arrivals and self.arrivals[0].arrived_ns <= self.now_ns:
            request = self.arrivals.popleft()
            name = request.name.encode()
            self.emit(Arrive(request.id, request.max_tokens, request.priority, request.seed, name, request.prompt_ids))
            self.scheduler.add(request)

    def advance(self) -> None:
        """Run one step, or move the clock to whatever can open the gate next."""
        step = self.scheduler.schedule(self.now_ns)
        if step is None:
            self.wait()
            return
        facts, _ = self.fold.in_flight[step.step]
        self.now_ns += round(self.cost.total(facts) * 1e9)
        sampled = step.samples == 1
        tokens = np.zeros(int(sampled.sum()), np.int32)
        output = StepOutput(step.step, step.rows[sampled], step.epochs[sampled], tokens)
        self.scheduler.apply(output, self.now_ns)

    def wait(self) -> None:
        wake = self.scheduler.next_wake_ns(self.now_ns)
        times = [self.arrivals[0].arrived_ns] if self.arrivals else []
        times += [wake] if wake is not None else []
        if not times:
            raise RuntimeError("the scheduler waits for nothing: no step, no wake-up time, no arrival")
        self.now_ns = max(self.now_ns + 1, min(times))


def simulate(items: Sequence[Item], scheduling: SchedulingConfig, cost: StepCost) -> tuple[list[StepFacts], float]:
    """The steps that ``items`` take under ``scheduling`` (none in flight), and the seconds since the first arrival."""
    run = _VirtualRun(items, scheduling, cost)
    while run.arrivals or run.scheduler.has_work:
        run.admit_arrivals()
        run.advance()
    return run.fold.done, run.now_ns / 1e9 - min(item.arrival_s for item in items)


def _request(index: int, item: Item) -> Request:
    arrived = round(item.arrival_s * 1e9)
    return Request(index, item.prompt_ids, item.sampling(), item.max_tokens, seed=0, arrived_ns=arrived)
