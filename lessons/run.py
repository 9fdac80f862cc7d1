"""A lesson that runs: its cells are executed in order, in one namespace, as far as the learner has got.

A cell waits while a question before it is open, or while its experiment was not started. Cells are quick (experiments
run elsewhere), so they are simply executed again when something that they depend on has changed.
"""

import builtins
import traceback
from dataclasses import dataclass, field
from typing import Literal

from lessons.book import Cell, Lesson
from lessons.kit.items import Item, Printed, Question
from lessons.kit.stage import Stage, Waiting

State = Literal["new", "done", "waiting", "failed"]


@dataclass(slots=True)
class CellRun:
    """How a cell stands, what it put on the stage, and why it failed."""

    cell: Cell
    state: State = "new"
    items: list[Item] = field(default_factory=list)
    error: str = ""


class LessonRun:
    """One learner's run of a lesson.

    Args:
        lesson: what to run.
        stage: where; its ``show`` is taken over.
    """

    def __init__(self, lesson: Lesson, stage: Stage) -> None:
        self.lesson, self.stage = lesson, stage
        self.cells = [CellRun(cell) for cell in lesson.cells]
        self._space: dict[str, object] = {}
        self._now: CellRun | None = None
        stage.show = self._show

    def advance(self, step: int) -> bool:
        """Run what can be run up to the end of a step. True when all of it is done."""
        last = max(self.lesson.steps[step].code, default=-1)
        for run in self.cells[: last + 1]:
            if run.cell.is_text:
                run.state = "done"
            elif run.state in ("new", "waiting"):
                self._execute(run)
            if run.state != "done" or self._open(run):
                return False
        return True

    def open_step(self, step: int) -> int | None:
        """The first step before ``step`` that waits for the learner, None when nothing does."""
        for at, each in enumerate(self.lesson.steps[:step]):
            runs = [self.cells[place] for place in each.code]
            if any(run.state != "done" or self._open(run) for run in runs):
                return at
        return None

    def items(self, step: int) -> list[tuple[CellRun, list[Item]]]:
        """The code cells of a step with what they show; nothing of a cell behind an open question."""
        shown = []
        for place in self.lesson.steps[step].code:
            run = self.cells[place]
            shown.append((run, run.items))
            if run.state != "done" or self._open(run):
                break
        return shown

    def again(self, cell: int = 0) -> None:
        """Run again from a cell on: something that it depends on has changed."""
        for run in self.cells[cell:]:
            run.state, run.items, run.error = "new", [], ""

    def place_of(self, item: Item) -> int:
        """The position of the cell that shows an item."""
        return next(at for at, run in enumerate(self.cells) if any(each is item for each in run.items))

    def _open(self, run: CellRun) -> bool:
        """Whether the cell asks something that is not settled."""
        return any(isinstance(item, Question) and self.stage.answer(item) is None for item in run.items)

    def _execute(self, run: CellRun) -> None:
        """Execute a cell; its lines have the numbers of the file, so that tracebacks and Triton find them."""
        run.items, run.error, self._now = [], "", run
        path = str(self.lesson.path)
        self._space |= {"__name__": self.lesson.stem, "__file__": path, "print": self._print}
        try:
            with self.stage.on():
                exec(compile("\n" * (run.cell.line - 1) + run.cell.source, path, "exec"), self._space)
            run.state = "done"
        except Waiting:
            run.state = "waiting"
        except Exception:  # a lesson's mistake must not take the page down: it is shown in its place
            run.state, run.error = "failed", traceback.format_exc(limit=-4)

    def _show(self, item: Item) -> None:
        self._now.items.append(item)

    def _print(self, *values: object, **options: object) -> None:
        """``print`` of a cell, without touching the standard output that all sessions share."""
        if "file" in options:
            builtins.print(*values, **options)
            return
        sep, end = options.get("sep", " "), options.get("end", "\n")
        self._show(Printed((sep or " ").join(map(str, values)) + ("" if end == "\n" else str(end))))
