"""The same engine twice: two settings side by side on the same requests, with the numbers that decide between them.

Every study says what must hold. Passes are interleaved after one that warms up, and each setting is judged by its
fastest: a disturbance of the machine can only add time.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from engine.clock import Clock
from engine.config import SchedulingConfig
from engine.trace.events import Event, Step
from engine.trace.metrics import summary
from engine.trace.recorder import ListSink, Recorder
from engine.trace.step_cost import StepCost
from engine.trace.timeline import split_runs
from engine.workload.bench import shorten
from engine.workload.drive import MakeEngine, Progress, drive, silent
from engine.workload.items import Item, Workload
from engine.workload.step_model import StepModel
from engine.workload.virtual import VirtualTime, VirtualWorker, virtual_engine


@dataclass(frozen=True, slots=True)
class Setting:
    """One side of a comparison: its name, and what it changes of ``SchedulingConfig``."""

    name: str
    overrides: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Goal:
    """What must hold of a study: ``figure`` of the first setting over that of the second, at least or at most."""

    figure: str
    at_least: float | None = None
    at_most: float | None = None

    def holds(self, ratio: float) -> bool:
        """Whether a measured ratio keeps the goal."""
        return (self.at_least is None or ratio >= self.at_least) and (self.at_most is None or ratio <= self.at_most)


@dataclass(frozen=True, slots=True)
class Study:
    """A question with its requests, its two settings and what must hold.

    ``concurrency``: closed loop, as of ``drive``.
    """

    name: str
    workload: Workload
    settings: tuple[Setting, Setting]
    goals: tuple[Goal, ...]
    concurrency: int | None = None


def run_study(make_engine: MakeEngine, study: Study, repeats: int = 2, progress: Progress = silent) -> dict:
    """Measure both settings.

    Returns:
        ``settings`` (name -> its overrides and the figures of its fastest pass), ``ratios`` (each figure of the first
        setting over that of the second), ``goals`` (with ``holds``) and ``workload``.
    """
    passes: dict[str, list[dict]] = {setting.name: [] for setting in study.settings}
    for repeat in range(repeats + 1):
        for setting in study.settings:
            what = f"{study.name}, {setting.name}, " + (f"pass {repeat} of {repeats}" if repeat else "warm-up")
            items = study.workload.items if repeat else [shorten(item) for item in study.workload.items]
            figures = _run(make_engine, study, setting, items, what, progress)
            passes[setting.name] += [figures] if repeat else []
    best = {name: min(done, key=lambda one: one["duration_s"]) for name, done in passes.items()}
    ratios = _ratios(*(best[setting.name] for setting in study.settings))
    return {
        "settings": {one.name: {"overrides": dict(one.overrides)} | best[one.name] for one in study.settings},
        "ratios": ratios,
        "goals": [_judged(goal, ratios) for goal in study.goals],
        "workload": study.workload.describe(),
    }


def peak_blocks(items: Sequence[Item], scheduling: SchedulingConfig, concurrency: int | None = None) -> int:
    """The most KV blocks that ``items`` would hold at once in an endless pool, by simulation."""
    endless = sum(-(-(len(item.prompt_ids) + item.max_tokens) // scheduling.block_size) for item in items)
    time = VirtualTime()
    clock = Clock(time)
    recorder = _PeakRecorder(clock, endless)
    config = replace(scheduling, pool_blocks=endless, prefix_cache=False, watermark=0.0)
    worker = VirtualWorker(StepModel(StepCost(1e-3, 0.0, 0.0)).seconds, config, time)
    drive(virtual_engine(worker, recorder, clock), items, concurrency=concurrency, sleep=time.sleep)
    return recorder.peak


class _PeakRecorder(Recorder):
    """Keeps the largest number of blocks in use."""

    def __init__(self, clock: Clock, pool_blocks: int) -> None:
        super().__init__((), clock)
        self.pool_blocks, self.peak = pool_blocks, 0

    def emit(self, event: Event) -> None:
        """Look at one event."""
        if isinstance(event, Step):
            self.peak = max(self.peak, self.pool_blocks - event.free - event.reclaimable)


def _run(
    make_engine: MakeEngine, study: Study, setting: Setting, items: Sequence[Item], what: str, progress: Progress
) -> dict:
    sink = ListSink()
    drive(make_engine(setting.overrides, (sink,)), items, what, progress, study.concurrency)
    (timeline,) = split_runs(sink.records)
    return summary(timeline)


def _ratios(one: Mapping[str, object], other: Mapping[str, object]) -> dict[str, float | None]:
    """``one`` over ``other`` for every number that both have; None where the second is 0."""
    numbers = [name for name, value in one.items() if isinstance(value, int | float)]
    return {name: one[name] / other[name] if other[name] else None for name in numbers}


def _judged(goal: Goal, ratios: Mapping[str, float | None]) -> dict:
    ratio = ratios[goal.figure]
    return asdict(goal) | {"ratio": ratio, "holds": ratio is not None and goal.holds(ratio)}
