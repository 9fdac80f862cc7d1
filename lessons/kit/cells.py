"""What the cells of a lesson call, in the order of the cell contract. Each puts one item on the stage."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lessons.figures.style import Picture
from lessons.kit.forms import Code, Control, Form
from lessons.kit.items import (
    Exercise,
    Experiment,
    Figure,
    Note,
    Origin,
    Question,
    Reconciled,
    Row,
    Takeaway,
    Tone,
    Verdict,
)
from lessons.kit.perform import smallest
from lessons.kit.progress import Entry, today
from lessons.kit.sandbox import answers_of
from lessons.kit.say import Say
from lessons.kit.shelf import Kept
from lessons.kit.stage import stage


def begin(lesson: str, language: str = "en") -> None:
    """Name the lesson; the first call of each. In the app and in tests the stage knows both already.

    Args:
        language: "en" or "zh", of a notebook.

    Raises:
        ValueError: another lesson is on the stage.
    """
    stage().begin(lesson, language)


def small() -> None:
    """Run experiments with the small values of their controls from here on: for a notebook on a slow machine."""
    stage().choose = smallest


def seed(salt: int = 0) -> int:
    """The seed of this run of the lesson; another ``salt`` gives another one, the same every time."""
    return stage().seed if salt == 0 else (stage().seed * 1_000_003 + salt * 7919) % 2**31


def note(text: Say, tone: Tone = "plain") -> None:
    """Say something that depends on what happened. ``tone``: plain, info, good or careful."""
    stage().show(Note(text, tone))


def predict(id: str, question: Say, form: Form, hints: Sequence[Say] = (), mine: object = None) -> None:
    """Ask for a prediction. No later cell runs before it is locked, or shown anyway (recorded as skipped).

    Args:
        mine: the answer where the lesson runs as a notebook; asked for by ``input`` when None.
    """
    asked = Question(id, question, form, tuple(hints))
    here = stage()
    if mine is not None and here.answer(asked) is None:
        here.progress.settle(here.key, id, form.clean(mine))
    here.show(asked)


def guard(holds: bool, otherwise: Say) -> bool:
    """A regime guard: can the effect show here? When not, say so; the lesson then teaches the null result."""
    if not holds:
        note(otherwise, "careful")
    return holds


def measure(id: str, title: Say, function: Callable[..., dict], controls: Sequence[Control] = ()) -> Kept:
    """Run an experiment: ``function(report, **values of the controls)``, which returns what JSON can hold.

    In the app the learner starts it; a cell with ``measure`` should do nothing slow before it.

    Returns:
        ``results``, ``values`` (of the controls) and ``origin`` (for figures and reconciliations).
    """
    here, experiment = stage(), Experiment(id, title, function, tuple(controls))
    here.show(experiment)
    return here.results(experiment)


def show(id: str, picture: Picture, data: object, origin: Origin, **options: object) -> None:
    """Show a figure, with its words and its table. ``options`` go to the functions of the picture."""
    stage().show(Figure(id, picture, data, origin, options))


def reconcile(id: str, rows: Sequence[Row], observed: Origin, theory: Origin) -> None:
    """Put theory, the learner's predictions and what was observed side by side, each with its error."""
    here = stage()
    for row in rows:
        if row.question:
            here.progress.observe(here.key, row.question, row.theory, row.observed)
    here.show(Reconciled(id, tuple(rows), theory, observed))


def reveal(question: str, outcome: str) -> None:
    """Say what came true of a question with choices; ``outcome`` is the key of one of them."""
    here = stage()
    here.progress.observe(here.key, question, None, outcome)


def exercise(
    id: str,
    task: Say,
    form: Form,
    grade: Callable[..., Verdict],
    hints: Sequence[Say] = (),
    solution: str | None = None,
    mine: object = None,
) -> None:
    """Set a task. ``grade(answer)`` judges; for ``Code`` it is ``grade(outputs, cases)``.

    Args:
        solution: of a code task; a test checks that it passes.
        mine: the answer where the lesson runs as a notebook (a function for ``Code``).
    """
    here, task_set = stage(), Exercise(id, task, form, grade, tuple(hints), solution)
    here.show(task_set)
    given = here.submitted(id, mine)
    if given is not None:
        note(judge(task_set, given).why)


def right(why: Say) -> Verdict:
    """The answer passes."""
    return Verdict(True, why)


def wrong(why: Say) -> Verdict:
    """The answer does not pass; ``why`` helps to find out, and does not give it away."""
    return Verdict(False, why)


def judge(task: Exercise, answer: object) -> Verdict:
    """Grade an answer and count the try.

    Raises:
        ValueError: not an answer at all (out of range, no code): that is no try.
    """
    here = stage()
    if isinstance(task.form, Code):
        outputs, broke = answers_of(task.form, answer)
        verdict = wrong(broke) if broke else task.grade(outputs, task.form.cases)
        answer = answer if isinstance(answer, str) else getattr(answer, "__name__", "")
    else:
        answer = task.form.clean(answer)
        verdict = task.grade(answer)
    here.progress.attempted(here.key, task.id, answer, verdict.passed, verdict.why.said({}))
    return verdict


def enter(name: str, value: float, unit: str, how: str, origin: Origin | None = None) -> Entry:
    """Write a number into the ledger, where later lessons find it."""
    here = stage()
    device = (origin.detail if origin else "").partition(" · ")[0]
    entry = Entry(float(value), unit, how, device, today(), here.lesson)
    known = here.progress.ledger.get(name)
    if known is None or (known.value, known.device, known.lesson) != (entry.value, entry.device, entry.lesson):
        here.progress.enter(name, entry)
    return entry


def recall(name: str) -> Entry | None:
    """A number of the ledger, None when no lesson has measured it yet."""
    return stage().progress.ledger.get(name)


def takeaway(text: Say, carried: Sequence[str] = ()) -> None:
    """The one line to remember, and which numbers of the ledger go on from here. Ends the lesson."""
    here = stage()
    here.progress.finish(here.key)
    here.show(Takeaway(text, tuple(carried)))


@dataclass(frozen=True, slots=True)
class Miss:
    """How far a prediction is off. ``factor`` is at least 1 (exp of the absolute log error)."""

    factor: float

    @property
    def share(self) -> float:
        """The same as a share: 0.1 is 10 % off."""
        return self.factor - 1


def miss(predicted: float, observed: float) -> Miss:
    """The distance between two positive numbers, the same in both directions."""
    if min(predicted, observed) <= 0:
        return Miss(math.inf)
    return Miss(math.exp(abs(math.log(predicted / observed))))
