"""What the tests of lessons share: every sentence of a lesson, real results to run on, and answers for graders."""

import ast
from functools import cache
from pathlib import Path

from lessons.book import Lesson, lesson
from lessons.headless import Finished, HeadlessStage, run_through
from lessons.kit.cells import judge
from lessons.kit.items import Exercise, Verdict
from lessons.kit.shelf import Kept

ROOT = Path(__file__).resolve().parents[2]


def says_in(source: str) -> dict[str, str]:
    """All ``say(id, english)`` of a source by id. Raises ``ValueError`` for an id used twice or built at run time."""
    found: dict[str, str] = {}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", "")) == "say":
            id, english = (ast.literal_eval(each) for each in node.args[:2])
            if found.get(id, english) != english:
                raise ValueError(f"{id} says two things")
            found[id] = english
    return found


def words_of(found: Lesson) -> dict[str, str]:
    """All that a lesson says: its text cells and its sentences, by id."""
    return {cell.id: cell.source for cell in found.cells if cell.is_text} | says_in(found.path.read_text("utf-8"))


@cache
def finished(id: str) -> Finished:
    """The lesson run once in this process, with the small sizes, every question skipped."""
    found = lesson(id)
    return run_through(found, HeadlessStage(found))


def again(id: str, kept: dict[str, Kept], **predictions: object) -> Finished:
    """The lesson run on results that are there already."""
    found = lesson(id)
    return run_through(found, HeadlessStage(found, predictions, kept=kept))


def verdict_of(run: Finished, exercise: str, answer: object) -> Verdict:
    """What the grader of an exercise says to an answer."""
    (task,) = [item for item in run.of(Exercise) if item.id == exercise]
    with run.stage.on():
        return judge(task, answer)
