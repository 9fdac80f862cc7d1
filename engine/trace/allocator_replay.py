"""The arrivals of a recorded run, served again by each allocator of ``allocators``: what fits, when, at which waste.

Memory alone decides here: a request computes all its known tokens in the step that admits it and one more in each step
after that, as many as it generated in the run. The queue is first come, first served; who needs room that is not there
preempts the most recently admitted one, and nobody is admitted in such a step. Computed, not measured.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from engine.trace.allocators import Allocator, ContiguousGrow, Demand, Paged, ReserveMax, Slots
from engine.trace.events import Arrive, Step
from engine.trace.timeline import Timeline

MAX_STEPS = 5_000


@dataclass(slots=True)
class Served:
    """What one allocator made of the arrivals. Entry i of ``slots``, ``running`` and ``waiting`` is step i + 1."""

    name: str
    pool: int  # token slots
    slots: list[Slots] = field(default_factory=list)
    running: list[int] = field(default_factory=list)  # requests
    waiting: list[int] = field(default_factory=list)
    waits: dict[int, int] = field(default_factory=dict)  # request -> steps from its arrival to its first admission
    preemptions: int = 0
    moved: int = 0  # tokens copied to another place (contiguous-grow)
    complete: bool = False  # False: some were still waiting or running when the replay was cut off

    @property
    def most_running(self) -> int:
        """Requests that fitted at once."""
        return max(self.running, default=0)

    @property
    def internal_per_request(self) -> float:
        """Slots of internal waste per running request, mean over all steps of all requests."""
        return sum(slots.internal for slots in self.slots) / max(1, sum(self.running))

    @property
    def mean_wait_steps(self) -> float:
        """Steps from arrival to first admission, mean."""
        return sum(self.waits.values()) / max(1, len(self.waits))


def expected_internal(block_size: int) -> float:
    """Internal waste of a paged request when its last block holds 1..``block_size`` tokens alike."""
    return (block_size - 1) / 2


def demands(timeline: Timeline) -> list[Demand]:
    """The requests of a run that got an answer, in order of arrival."""
    arrived = {r.event.request: r.step + 1 for r in timeline if isinstance(r.event, Arrive)}
    known = timeline.state_at(timeline.last_seq).requests
    found = [(step, known[request]) for request, step in arrived.items() if request in known]
    return [Demand(view.id, step, view.prompt_length, view.num_output) for step, view in found if view.num_output]


def step_seconds(timeline: Timeline) -> float:
    """Mean time from step to step in the run: what turns a wait in steps into one in seconds."""
    times = [record.t_ns for record in timeline if isinstance(record.event, Step)]
    return (times[-1] - times[0]) / (len(times) - 1) / 1e9 if len(times) > 1 else 0.0


def compare(timeline: Timeline, block_size: int | None = None, max_steps: int = MAX_STEPS) -> list[Served]:
    """The arrivals of a run under all three allocators, on its pool; ``block_size``: another than that of the run."""
    state = timeline.state_at(timeline.last_seq)
    pool = state.pool.size * state.block_size
    size = block_size or state.block_size
    pool -= pool % size
    asked = [demand for demand in demands(timeline) if demand.final <= pool]
    allocators = ReserveMax(pool, state.limit("max_model_len", pool)), ContiguousGrow(pool), Paged(pool, size)
    return [serve(allocator, asked, max_steps) for allocator in allocators]


def serve(allocator: Allocator, asked: Sequence[Demand], max_steps: int = MAX_STEPS) -> Served:
    """Serve requests that each fit the pool alone."""
    run = _Run(allocator, asked)
    while not run.done and len(run.served.slots) < max_steps:
        run.step()
    run.served.complete = run.done
    run.served.moved = allocator.moved
    return run.served


class _Run:
    """Queue and rows of one replay."""

    def __init__(self, allocator: Allocator, asked: Sequence[Demand]) -> None:
        self.allocator = allocator
        self.served = Served(allocator.name, allocator.pool)
        self.coming = deque(sorted(asked, key=lambda demand: demand.arrived))
        self.waiting: deque[Demand] = deque()
        self.running: list[Demand] = []  # admission order
        self.generated = dict.fromkeys((demand.request for demand in asked), 0)

    @property
    def done(self) -> bool:
        return not (self.coming or self.waiting or self.running)

    def step(self) -> None:
        number = len(self.served.slots) + 1
        while self.coming and self.coming[0].arrived <= number:
            self.waiting.append(self.coming.popleft())
        if not self._grow():
            self._admit(number)
        for demand in self.running:
            self.generated[demand.request] += 1
        self._note()
        for demand in [one for one in self.running if self.generated[one.request] == one.output]:
            self.allocator.free(demand.request)
            self.running.remove(demand)

    def _grow(self) -> bool:
        """One more token for everybody who runs. True when somebody was preempted for it."""
        before = self.served.preemptions
        for demand in list(self.running):
            while demand in self.running and not self.allocator.grow(demand.request):
                self._preempt(self.running[-1])
        return self.served.preemptions > before

    def _preempt(self, demand: Demand) -> None:
        self.allocator.free(demand.request)
        self.running.remove(demand)
        self.waiting.appendleft(demand)
        self.served.preemptions += 1

    def _admit(self, number: int) -> None:
        while self.waiting and self.allocator.admit(self.waiting[0], self._known(self.waiting[0])):
            demand = self.waiting.popleft()
            self.running.append(demand)
            self.served.waits.setdefault(demand.request, number - demand.arrived)

    def _known(self, demand: Demand) -> int:
        return demand.prompt + self.generated[demand.request]

    def _note(self) -> None:
        first = (self.waiting[0], self._known(self.waiting[0])) if self.waiting else None
        self.served.slots.append(self.allocator.slots(first))
        self.served.running.append(len(self.running))
        self.served.waiting.append(len(self.waiting))
