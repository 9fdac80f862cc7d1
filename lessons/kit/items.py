"""What the cells of a lesson put on the stage, as values: whoever shows them (app, notebook, test) decides how."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from lessons.figures.style import Picture, Provenance
from lessons.kit.forms import Control, Form
from lessons.kit.say import Say

Tone = Literal["plain", "info", "good", "careful"]
Report = Callable[[str | Say, float], None]  # what goes on, and how far it is (0 to 1)


@dataclass(frozen=True, slots=True)
class Origin:
    """Where numbers come from: the badge, and what stands beside its word (device, date, formula)."""

    kind: Provenance
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Note:
    """A sentence or two that depend on what happened."""

    text: Say
    tone: Tone = "plain"


@dataclass(frozen=True, slots=True)
class Question:
    """A prediction to lock. Until it is settled no later cell runs, so that no answer can be in sight."""

    id: str
    text: Say
    form: Form
    hints: tuple[Say, ...] = ()


@dataclass(frozen=True, slots=True)
class Experiment:
    """Work that takes seconds and waits for the learner. ``function(report, **values)`` returns what JSON can hold."""

    id: str
    title: Say
    function: Callable[..., dict]
    controls: tuple[Control, ...] = ()


@dataclass(frozen=True, slots=True)
class Figure:
    """A picture of ``data``, with its words, its table and its origin."""

    id: str
    picture: Picture
    data: object
    origin: Origin
    options: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a reconciliation: theory, the learner's prediction (of ``question``), and what was observed."""

    label: Say
    theory: float | None
    observed: float
    unit: str = "x"
    question: str = ""
    within: float | None = None  # the error of the theory that is still called agreement, as a share


@dataclass(frozen=True, slots=True)
class Reconciled:
    """Theory, predictions and observations side by side."""

    id: str
    rows: tuple[Row, ...]
    theory: Origin
    observed: Origin


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a grader says to one answer."""

    passed: bool
    why: Say


@dataclass(frozen=True, slots=True)
class Exercise:
    """A task with a grader: ``grade(answer)`` for a form, ``grade(outputs, cases)`` for code."""

    id: str
    task: Say
    form: Form
    grade: Callable[..., Verdict]
    hints: tuple[Say, ...] = ()
    solution: str | None = None  # of a code exercise, for the teacher and the tests


@dataclass(frozen=True, slots=True)
class Takeaway:
    """The one line to remember, and the number that goes on to later lessons."""

    text: Say
    carried: Sequence[str] = ()  # names in the ledger


@dataclass(frozen=True, slots=True)
class Printed:
    """What a cell printed."""

    text: str


Item = Note | Question | Experiment | Figure | Reconciled | Exercise | Takeaway | Printed
