"""Where a lesson runs: the app, a notebook, a test. Cells call the kit, the kit asks the stage that is on."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar

from engine.driver import Driver
from lessons.kit.items import Experiment, Item, Question
from lessons.kit.perform import usual
from lessons.kit.progress import Answer, Progress, lesson_key
from lessons.kit.say import Say, twin
from lessons.kit.shelf import Kept

Choose = Callable[[Experiment], dict[str, object]]


class Waiting(BaseException):
    """The cell waits for the learner (to start an experiment). A lesson's own ``except Exception`` lets it pass."""


class Stage:
    """What the kit needs from its surroundings; the app, the notebook and the tests each complete it.

    Args:
        progress: what the learner leaves behind.
        lesson: id of the lesson, ``"L8"``.
        stem: file name of the lesson, for its twin.
        seed: of all that is drawn.
        language: of the reader.
    """

    def __init__(self, progress: Progress, lesson: str, stem: str, seed: int = 0, language: str = "en") -> None:
        self.progress, self.lesson, self.stem, self.seed, self.language = progress, lesson, stem, seed, language
        self.choose: Choose = usual  # the values of an experiment's controls, where nobody moves them

    @property
    def key(self) -> str:
        """What the lesson is called in the progress."""
        return lesson_key(self.lesson, self.seed)

    @property
    def twin(self) -> Mapping[str, str]:
        """The pieces of this lesson, and the kit's own, in the reader's language."""
        return {**twin("kit", self.language), **twin(self.stem, self.language)}

    def begin(self, lesson: str, language: str) -> None:
        """The lesson's first cell says which one it is; here it is known. Raises ``ValueError`` for another one."""
        if lesson != self.lesson:
            raise ValueError(f"this is lesson {self.lesson}, not {lesson}")

    def text(self, words: Say) -> str:
        """A sentence in the reader's language."""
        return words.said(self.twin)

    def answer(self, question: Question) -> Answer | None:
        """The settled answer to a question, None while it is open."""
        return self.progress.answer(self.key, question.id)

    def show(self, item: Item) -> None:
        """Put something on the stage."""
        raise NotImplementedError

    def results(self, experiment: Experiment) -> Kept:
        """The results of an experiment: run now, or before. Raises ``Waiting`` when the learner has to start it."""
        raise NotImplementedError

    def submitted(self, exercise: str, mine: object) -> object | None:
        """The learner's answer to an exercise where it is given in the cell; None where there are widgets."""
        return mine

    def driver(self) -> Driver:
        """The engine, ready. Only for the functions of experiments: it may take seconds."""
        raise NotImplementedError

    def alone(self, what: str) -> AbstractContextManager:
        """The device for oneself: a running engine stands still meanwhile."""
        raise NotImplementedError

    @contextmanager
    def on(self) -> Iterator[None]:
        """The kit talks to this stage meanwhile, in this thread."""
        token = _stage.set(self)
        try:
            yield
        finally:
            _stage.reset(token)


_stage: ContextVar[Stage] = ContextVar("stage")


def stage() -> Stage:
    """The stage that is on; a notebook's own when nobody set one."""
    try:
        return _stage.get()
    except LookupError:
        from lessons.kit.notebook import notebook_stage

        return notebook_stage()


def quiet(what: str | Say, done: float) -> None:
    """A ``Report`` that shows nothing."""
