"""Simulation: the engine on a virtual clock, with a step time fitted from a recorded run.

Which steps a workload takes is not modelled at all: the scheduler and the KV manager are the real ones. Only the
seconds of a step are, and ``compare`` says how far they are off.
"""

from collections.abc import Mapping, Sequence

from engine.clock import Clock
from engine.config import SchedulingConfig
from engine.trace.events import Event, Record, Step
from engine.trace.recorder import ListSink, Recorder
from engine.trace.step_cost import StepCost
from engine.trace.step_facts import StepFacts, StepFold
from engine.trace.timeline import Timeline, split_runs
from engine.workload.drive import drive
from engine.workload.items import Item
from engine.workload.step_model import StepModel
from engine.workload.tally import Tally
from engine.workload.virtual import GivenAnswers, VirtualTime, VirtualWorker, virtual_engine

COMPARED = ("output_throughput", "median_ttft_ms", "p99_ttft_ms", "median_itl_ms", "p99_itl_ms")


def simulate(
    items: Sequence[Item],
    scheduling: SchedulingConfig,
    model: StepModel,
    seed: int = 0,
    concurrency: int | None = None,
    answers: GivenAnswers | None = None,
    info: Mapping[str, object] | None = None,
    pieces: Mapping[int, bytes] | None = None,
) -> Timeline:
    """Run ``items`` in simulated time: a whole trace, for every view and metric. Badge: Simulated.

    Args:
        concurrency: as of ``drive``.
        answers: the tokens of each item by its place, where prefix hits on answers matter.
        info: what the RUN record says besides (the model and the device that are simulated).
        pieces: text of token ids.

    Raises:
        InvalidRequest, RequestRefused: an item does not fit.
    """
    sink, time = ListSink(), VirtualTime()
    clock = Clock(time)
    recorder = Recorder([sink], clock, None if pieces is None else lambda token: pieces.get(token, b""))
    known = dict(info or {}) | {"provenance": "Simulated", "step_model": model.to_dict()}
    worker = VirtualWorker(model.seconds, scheduling, time, answers)
    drive(virtual_engine(worker, recorder, clock, seed, known), items, concurrency=concurrency, sleep=time.sleep)
    (timeline,) = split_runs(sink.records, "Simulated")
    return timeline


def simulate_summary(
    items: Sequence[Item],
    scheduling: SchedulingConfig,
    model: StepModel,
    seed: int = 0,
    concurrency: int | None = None,
) -> dict:
    """As ``simulate``, but only the figures, and many times faster: for 100,000 requests."""
    time = VirtualTime()
    clock = Clock(time)
    tally, worker = Tally(clock), VirtualWorker(model.seconds, scheduling, time)
    drive(virtual_engine(worker, tally, clock, seed), items, concurrency=concurrency, sleep=time.sleep)
    return tally.summary()


class _FactsRecorder(Recorder):
    """Folds the events of a run into the facts of its steps, and keeps no record."""

    def __init__(self, clock: Clock) -> None:
        super().__init__((), clock)
        self._now = clock
        self.fold = StepFold()

    def emit(self, event: Event) -> None:
        """Fold one event."""
        self.step += isinstance(event, Step)
        self.fold.feed(Record(self.seq, self._now(), self.step, event))
        self.seq += 1


def simulate_steps(
    items: Sequence[Item], scheduling: SchedulingConfig, cost: StepCost
) -> tuple[list[StepFacts], float]:
    """The steps that ``items`` take under ``scheduling``, and the seconds since the first arrival.

    The race predicts each factor of the gain from them, without having run that schedule.
    """
    time = VirtualTime()
    clock = Clock(time)
    recorder, worker = _FactsRecorder(clock), VirtualWorker(StepModel(cost).seconds, scheduling, time)
    drive(virtual_engine(worker, recorder, clock), items, sleep=time.sleep)
    steps = recorder.fold.done
    return steps, steps[-1].end_ns / 1e9 - min(item.arrival_s for item in items)


def compare(measured: Mapping[str, float], simulated: Mapping[str, float]) -> dict[str, dict[str, float]]:
    """For each figure of two summaries: ``measured``, ``simulated`` and the relative ``error`` of the simulation."""
    return {
        name: {
            "measured": measured[name],
            "simulated": simulated[name],
            "error": simulated[name] / measured[name] - 1 if measured[name] else 0.0,
        }
        for name in COMPARED
    }
