"""The lessons as files: the list of all 19, and the cells and steps of one that is written.

A lesson is a notebook in percent format. A *step* is a text cell with the code cells behind it: what a learner sees at
once. A text cell names its step and, unless it is plain context, its kind: ``# %% mixed [markdown] kind="question"``.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from lessons.kit.say import LANGUAGES, twin

FOLDER = Path(__file__).parent
KINDS = ("context", "question", "experiment", "figures", "reconcile", "exercise", "takeaway")
_HEAD = re.compile(r'^# %%[ ]*(?P<id>[\w-]*)[ ]*(?P<text>\[markdown\])?[ ]*(?:kind="(?P<kind>\w+)")?[ ]*$')


@dataclass(frozen=True, slots=True)
class Plan:
    """A lesson of the curriculum, written or not: English and Chinese title, minutes, lessons to do before."""

    id: str
    title: tuple[str, str]
    minutes: int
    needs: tuple[str, ...]

    @property
    def path(self) -> Path | None:
        """The notebook, None while it is not written."""
        found = sorted(FOLDER.glob(f"L{int(self.id[1:]):02d}_*.py"))
        return found[0] if found else None

    def name(self, lang: str) -> str:
        """The title in a language."""
        return self.title[LANGUAGES.index(lang)]


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell: its id (empty for code behind another code cell), text or code, and the line its source starts at."""

    id: str
    source: str
    line: int
    is_text: bool
    kind: str = "context"


@dataclass(frozen=True, slots=True)
class Step:
    """What a learner sees at once: a text cell and the code behind it (positions in the lesson's cells)."""

    text: Cell
    code: tuple[int, ...]

    @property
    def id(self) -> str:
        """The id of its text cell."""
        return self.text.id

    @property
    def kind(self) -> str:
        """Its place in the cell contract."""
        return self.text.kind

    def title(self, lang: str, stem: str) -> str:
        """The first heading of its text."""
        source = twin(stem, lang).get(self.id, self.text.source)
        heads = re.findall(r"^#+ (.+)$", source, re.MULTILINE)
        return heads[0] if heads else self.id


@dataclass(frozen=True, slots=True)
class Lesson:
    """A written lesson."""

    plan: Plan
    path: Path
    cells: tuple[Cell, ...]
    steps: tuple[Step, ...]

    @property
    def id(self) -> str:
        """``"L8"``."""
        return self.plan.id

    @property
    def stem(self) -> str:
        """The file's name without its ending; also that of its twin."""
        return self.path.stem

    def text(self, cell: Cell, lang: str) -> str:
        """A text cell in a language; English where the twin lacks it (a test finds that)."""
        return twin(self.stem, lang).get(cell.id, cell.source)

    def step_named(self, name: str) -> int | None:
        """The position of a step by its number from 1 or by its id; None when there is none."""
        if name.isdigit():
            return int(name) - 1 if 1 <= int(name) <= len(self.steps) else None
        return next((at for at, step in enumerate(self.steps) if step.id == name), None)


@cache
def plans() -> tuple[Plan, ...]:
    """All lessons in their order."""
    listed = json.loads((FOLDER / "plan.json").read_text(encoding="utf-8"))
    return tuple(Plan(each["id"], tuple(each["title"]), each["minutes"], tuple(each["needs"])) for each in listed)


def plan(id: str) -> Plan:
    """The lesson of that id. Raises ``KeyError``."""
    return {each.id: each for each in plans()}[id]


def lesson(id: str) -> Lesson:
    """The written lesson of that id.

    Raises:
        KeyError: there is no such lesson, or it is not written yet.
    """
    found = plan(id)
    if found.path is None:
        raise KeyError(f"{id} is not written yet")
    return _read(found, found.path, found.path.stat().st_mtime_ns)


def written() -> list[Lesson]:
    """All lessons that are written, in their order."""
    return [lesson(each.id) for each in plans() if each.path is not None]


def cells_of(source: str) -> list[Cell]:
    """The cells of a notebook in percent format; what stands before the first is left out."""
    found: list[Cell] = []
    lines, heads = source.splitlines(), []
    for number, line in enumerate(lines):
        match = _HEAD.match(line)
        if match:
            heads.append((number, match))
    ends = [number for number, _ in heads[1:]] + [len(lines)]
    for (number, match), end in zip(heads, ends):
        body = _stripped(lines[number + 1 : end])
        is_text = match["text"] is not None
        text = "\n".join(_uncommented(body)) if is_text else "\n".join(body)
        found.append(Cell(match["id"], text, number + 2, is_text, match["kind"] or "context"))
    return found


def steps_of(cells: Sequence[Cell]) -> list[Step]:
    """The cells grouped into steps; code before the first text belongs to the first step."""
    texts = [at for at, cell in enumerate(cells) if cell.is_text]
    starts = [0, *texts[1:]]
    ends = [*texts[1:], len(cells)]
    return [
        Step(cells[text], tuple(at for at in range(first, end) if not cells[at].is_text))
        for text, first, end in zip(texts, starts, ends)
    ]


@cache
def _read(found: Plan, path: Path, changed_ns: int) -> Lesson:
    cells = cells_of(path.read_text(encoding="utf-8"))
    return Lesson(found, path, tuple(cells), tuple(steps_of(cells)))


def _stripped(lines: list[str]) -> list[str]:
    """The lines without empty ones at the end."""
    while lines and not lines[-1].strip():
        lines = lines[:-1]
    return lines


def _uncommented(lines: list[str]) -> list[str]:
    return [line.removeprefix("#").removeprefix(" ") for line in lines]
