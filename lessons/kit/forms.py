"""What a learner fills in: a number, a choice, some choices, code; and the controls of an experiment."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from lessons.kit.say import Say


@dataclass(frozen=True, slots=True)
class Number:
    """A number between ``low`` and ``high``, in steps. ``start`` is where the slider stands, never the answer."""

    low: float
    high: float
    step: float
    start: float
    unit: str = ""

    def clean(self, value: object) -> float:
        """The value as a number in range; ``ValueError`` names what is allowed."""
        try:
            number = float(value)
        except (TypeError, ValueError) as error:
            raise ValueError(f"a number from {self.low:g} to {self.high:g}, not {value!r}") from error
        if not self.low <= number <= self.high:
            raise ValueError(f"a number from {self.low:g} to {self.high:g}, not {number:g}")
        return number


@dataclass(frozen=True, slots=True)
class Choice:
    """One of several sentences, by key."""

    options: Mapping[str, Say] = field(hash=False)

    def clean(self, value: object) -> str:
        """The value as a key; ``ValueError`` names the keys."""
        if value not in self.options:
            raise ValueError(f"one of {', '.join(self.options)}, not {value!r}")
        return str(value)


@dataclass(frozen=True, slots=True)
class Choices:
    """Exactly ``count`` of several sentences, by key."""

    options: Mapping[str, Say] = field(hash=False)
    count: int

    def clean(self, value: object) -> list[str]:
        """The values as sorted keys; ``ValueError`` names what is allowed."""
        picked = sorted(value) if isinstance(value, list | tuple | set) else []
        if len(set(picked)) != self.count or not set(picked) <= self.options.keys():
            raise ValueError(f"{self.count} of {', '.join(self.options)}, not {value!r}")
        return picked


@dataclass(frozen=True, slots=True)
class Code:
    """Python that defines ``entry``; it is called with each of ``cases`` (arguments that JSON or numpy can hold).

    It runs in a process of its own with limits, and never sees what the grader knows.
    """

    entry: str
    starter: str
    cases: Sequence[tuple] = field(hash=False)

    def clean(self, value: object) -> str:
        """The source as text."""
        if not isinstance(value, str) or not value.strip():
            raise ValueError(f"Python that defines {self.entry}")
        return value


Form = Number | Choice | Choices | Code


@dataclass(frozen=True, slots=True)
class Control:
    """A knob of an experiment: ``name`` is the argument of its function. At most three of one experiment are in sight.

    Args:
        options: the values to choose from.
        default: chosen at first.
        small: chosen when lessons run as a test on two CPU cores; the default when None.
        names: what the reader sees in place of a value.
        aside: put away behind "more", with its value on the lid.
    """

    name: str
    label: Say
    options: tuple = field(hash=False)
    default: object
    small: object = None
    names: Mapping[object, Say] = field(default_factory=dict, hash=False)
    aside: bool = False
