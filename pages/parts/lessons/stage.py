"""The stage of the app: questions and experiments wait for widgets, and the engine is the one of this server."""

import time
from collections.abc import Mapping
from contextlib import AbstractContextManager

from engine.driver import Driver
from engine.errors import EngineStopped
from lessons.book import Lesson
from lessons.kit.items import Experiment
from lessons.kit.progress import Progress
from lessons.kit.shelf import Kept, Shelf
from lessons.kit.stage import Stage, Waiting
from pages.parts.lessons.work import Work
from pages.parts.session import Session


class AppStage(Stage):
    """One tab's stage of one lesson.

    Args:
        lesson: what runs.
        seed: of all that is drawn.
        progress: of the learner.
        own: where the learner's results are kept.
        engine: the server's session.
    """

    def __init__(self, lesson: Lesson, seed: int, progress: Progress, own: Shelf, engine: Session) -> None:
        super().__init__(progress, lesson.id, lesson.stem, seed)
        self._own, self._engine = own, engine
        self.kept: dict[str, Kept] = {}
        self.work: Work | None = None

    def results(self, experiment: Experiment) -> Kept:
        """Those of this visit, else those that the learner measured before; else the cell waits."""
        if experiment.id not in self.kept:
            before = self._own.get(self.key, experiment.id)
            if before is None:
                raise Waiting(experiment.id)
            self.kept[experiment.id] = before
        return self.kept[experiment.id]

    def submitted(self, exercise: str, mine: object) -> None:
        """Answers come from widgets."""

    def begin_work(self, experiment: Experiment, values: Mapping[str, object]) -> None:
        """Start an experiment in the background."""
        self.work = Work(self, experiment, values)
        self.work.start()

    def take_work(self) -> Work | None:
        """The experiment that has ended since the last look, once; its results are kept."""
        ended = self.work if self.work is not None and not self.work.running else None
        if ended is not None and ended.kept is not None:
            self.work = None
            self.keep(ended.experiment, ended.kept)
        return ended

    def keep(self, experiment: Experiment, kept: Kept) -> None:
        """Use these results from now on, in later visits too."""
        self.kept[experiment.id] = kept
        self._own.put(self.key, experiment.id, kept)

    def driver(self) -> Driver:
        """The server's engine, started if need be, running at full speed."""
        self._engine.start()
        while (status := self._engine.status()).phase != "ready":
            if status.phase != "starting":
                raise EngineStopped(status.words or "the engine was stopped")
            if self.work is not None:
                self.work.report(status.words, 0.0)
            time.sleep(0.1)
        driver = self._engine.driver()
        self._engine.pacer.halt()
        driver.resume()
        return driver

    def alone(self, what: str) -> AbstractContextManager:
        """A running engine stands still at a step boundary meanwhile."""
        return self._engine.driver().exclusive(what)
