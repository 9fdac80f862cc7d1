"""The race that runs, or ran last, on this server: one at a time, whichever tab asked for it.

The race itself happens in the engine process; a thread here waits for it and keeps its words, its lanes as they fill,
and its result.
"""

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache

from engine.config import SchedulingConfig
from engine.driver import Driver
from engine.errors import EngineStopped
from engine.trace.checks import Check
from engine.trace.lanes import lanes
from engine.trace.ticks import ticks
from engine.trace.timeline import Timeline
from engine.workload.race_spec import RaceSpec
from pages.parts.arena.checking import NAMES, checked, scheduler_of
from pages.parts.session import Session, session


@dataclass(frozen=True, slots=True)
class Stage:
    """What goes on: ``scheduler`` (empty before the first), ``words`` of the race, and how far all of it is."""

    scheduler: str = ""
    words: str = ""
    done: float = 0.0


@dataclass(slots=True)
class Race:
    """One race: asked for, running, ended with ``results`` or with ``error``."""

    spec: RaceSpec
    number: int
    stage: Stage = Stage()
    results: dict | None = None
    info: dict = field(default_factory=dict)  # of the RUN record
    window_ms: float = SchedulingConfig().window_ms
    checks: dict[str, list[Check]] = field(default_factory=dict)  # of the newest lap of each scheduler
    cancelled: bool = False
    error: str = ""
    _laps: list[str] = field(default_factory=list)
    _drawn: dict[str, tuple[int, dict]] = field(default_factory=dict)

    @property
    def running(self) -> bool:
        """True until it ended."""
        return self.results is None and not self.error

    def report(self, what: str, share: float) -> None:
        """Take a progress report of the race: ``"static, repeat 1"`` and the share of that lap.

        Raises ``Cancelled`` once somebody gave the race up: that ends it in the engine too.
        """
        if self.cancelled:
            raise Cancelled("the race was cancelled")
        if what not in self._laps:
            self._laps.append(what)
        batching, _, words = what.partition(", ")
        laps = len(self.spec.schedulers) * (1 + self.spec.repeats)  # a disturbed race may go round again
        done = (self._laps.index(what) + share) / laps
        self.stage = Stage(NAMES.get(batching, ""), words, min(0.99, max(self.stage.done, done)))

    def laps(self, runs: Sequence[Timeline]) -> dict[str, dict]:
        """Lanes and ticks of the newest lap of each scheduler, by name. A warm-up is no lap: it has fewer requests."""
        for timeline in runs:
            name = scheduler_of(timeline)
            if name is None or _arrived(timeline) < self.spec.requests:
                continue
            mark = timeline.last_seq
            if self._drawn.get(name, (-1, {}))[0] < mark:
                self._drawn[name] = mark, {"lanes": lanes(timeline), "ticks": ticks(timeline)}
        return {name: drawn for name, (_, drawn) in self._drawn.items()}


class Cancelled(Exception):
    """Somebody gave the race up."""


class RaceDesk:
    """Starts races and keeps the newest. Every method may be called from any thread."""

    def __init__(self, engine: Session) -> None:
        self._engine = engine
        self._lock = threading.Lock()
        self._seen_seq = -1
        self.race: Race | None = None

    def start(self, spec: RaceSpec) -> None:
        """Start a race unless one runs; returns at once."""
        with self._lock:
            if self.race is not None and self.race.running:
                return
            self.race = Race(spec.validate(), (self.race.number if self.race else 0) + 1)
            threading.Thread(target=self._run, args=(self.race,), name="race", daemon=True).start()

    def cancel(self) -> None:
        """Give the running race up; it ends within a step or two."""
        if self.race is not None:
            self.race.cancelled = True

    def waiting_for(self) -> str:
        """What a race that has not begun yet waits for, in the engine's words."""
        status = self._engine.status()
        return status.busy or status.words

    def laps(self) -> dict[str, dict]:
        """The lanes of the running race so far."""
        return self.race.laps(self._runs()) if self.race else {}

    def _run(self, race: Race) -> None:
        try:
            self._engine.start()
            driver = self._ready_driver(race)
            live = driver.trace.live if driver.trace is not None else None
            self._seen_seq = live.last_seq if live is not None else -1
            self._engine.pacer.halt()
            driver.resume()
            race.window_ms = driver.concrete_config.scheduling.window_ms
            results = driver.race(race.spec, race.report)
            driver.trace.poll()
            race.info, race.checks = driver.info, checked(self._runs())
            race.results = results
        except Exception as error:  # nobody waits for this thread: the page shows the reason
            race.error = str(error) or type(error).__name__

    def _runs(self) -> list[Timeline]:
        trace = self._engine.driver().trace
        return [run for run in (trace.runs if trace is not None else []) if run.first_seq > self._seen_seq]

    def _ready_driver(self, race: Race) -> Driver:
        """Wait for the engine that is starting."""
        while (status := self._engine.status()).phase != "ready":
            if race.cancelled:
                raise Cancelled("the race was cancelled")
            if status.phase != "starting":
                raise EngineStopped(status.words or "the engine was stopped")
            time.sleep(0.1)
        return self._engine.driver()


def _arrived(timeline: Timeline) -> int:
    return timeline.state_at(timeline.last_seq).totals.arrived


@cache
def race_desk() -> RaceDesk:
    """The server's race desk."""
    return RaceDesk(session())
