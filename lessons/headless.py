"""Runs a lesson from its first cell to its last without a person: for tests, for recordings, for a teacher's key."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

from engine.driver import Driver
from lessons.book import Lesson
from lessons.kit.items import Experiment, Item, Question, Report
from lessons.kit.notebook import own_driver
from lessons.kit.perform import perform, smallest
from lessons.kit.progress import Answer, Progress
from lessons.kit.shelf import Kept
from lessons.kit.stage import Choose, Stage, quiet
from lessons.run import LessonRun


class HeadlessStage(Stage):
    """Skips every question that ``predictions`` does not answer, and runs each experiment at once.

    Args:
        lesson: what will run.
        predictions: answers by question.
        choose: the values of an experiment's controls.
        make_driver: where the engine comes from.
        report: told about the progress of experiments.
        kept: takes the results of each experiment.
    """

    def __init__(
        self,
        lesson: Lesson,
        predictions: Mapping[str, object] | None = None,
        choose: Choose = smallest,
        make_driver: Callable[[], Driver] = own_driver,
        report: Report = quiet,
        kept: Mapping[str, Kept] | None = None,
        seed: int = 0,
        language: str = "en",
        progress: Progress | None = None,
    ) -> None:
        super().__init__(progress or Progress(None), lesson.id, lesson.stem, seed, language)
        self._predictions, self.choose = predictions or {}, choose
        self._make_driver, self._report = make_driver, report
        self._driver: Driver | None = None
        self.kept: dict[str, Kept] = dict(kept or {})

    def answer(self, question: Question) -> Answer | None:
        """The given prediction, or skipped."""
        if self.progress.answer(self.key, question.id) is None:
            given = self._predictions.get(question.id)
            self.progress.settle(self.key, question.id, None if given is None else question.form.clean(given))
        return self.progress.answer(self.key, question.id)

    def results(self, experiment: Experiment) -> Kept:
        """Those that were given, or run now."""
        if experiment.id not in self.kept:
            self.kept[experiment.id] = perform(self, experiment, self.choose(experiment), self._report)
        return self.kept[experiment.id]

    def driver(self) -> Driver:
        """The engine, ready."""
        self._driver = self._make_driver()
        return self._driver

    def alone(self, what: str) -> AbstractContextManager:
        """The device for oneself: an engine that this lesson has started stands still."""
        return self._driver.exclusive(what) if self._driver else nullcontext()


@dataclass(slots=True)
class Finished:
    """A lesson that ran: everything it showed, in order, and its stage."""

    stage: HeadlessStage
    items: list[Item] = field(default_factory=list)

    def of(self, kind: type) -> list:
        """The items of one kind."""
        return [item for item in self.items if isinstance(item, kind)]


def run_through(lesson: Lesson, stage: HeadlessStage) -> Finished:
    """Run all cells.

    Raises:
        RuntimeError: a cell failed; the message is its traceback.
    """
    run = LessonRun(lesson, stage)
    done = run.advance(len(lesson.steps) - 1)
    failed = next((cell for cell in run.cells if cell.state == "failed"), None)
    if failed is not None or not done:
        raise RuntimeError(f"{lesson.stem}: {failed.error if failed else 'a cell waits'}")
    return Finished(stage, [item for cell in run.cells for item in cell.items])
