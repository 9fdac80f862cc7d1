"""Guards the Chinese twins: a missing piece shows English in the middle of a Chinese page, a left-over one is never
seen, and a forgotten field leaves a number out."""

import importlib
import pkgutil
import re
from string import Formatter

import pytest
from lesson_tests import ROOT, says_in, words_of

from lessons import figures
from lessons.book import Lesson, plans, written
from lessons.figures.style import Picture
from lessons.kit.say import pieces

TWINS = ROOT / "lessons" / "zh"
MODULES = [importlib.import_module(f"lessons.figures.{each.name}") for each in pkgutil.iter_modules(figures.__path__)]
PICTURES = {id(value): value for each in MODULES for value in vars(each).values() if isinstance(value, Picture)}
HAN = re.compile(r"[\u4e00-\u9fff]")


def _twin(name: str) -> dict[str, str]:
    return pieces((TWINS / f"{name}.md").read_text(encoding="utf-8"))


def _fields(text: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(text) if name}


def _compare(english: dict[str, str], chinese: dict[str, str], filled: set[str]) -> None:
    assert not english.keys() - chinese.keys(), "not translated"
    assert not chinese.keys() - english.keys(), "left over"
    for id in filled:
        assert _fields(english[id]) == _fields(chinese[id]), id


@pytest.mark.parametrize("found", written(), ids=lambda each: each.stem)
def test_every_lesson_says_the_same_in_chinese(found: Lesson) -> None:
    """Guards the twin of a lesson: each text cell and each sentence, with the same fields."""
    english, chinese = words_of(found), _twin(found.stem)
    filled = {id for id in says_in(found.path.read_text("utf-8")) if "{" in english[id]}
    _compare(english, chinese, filled)
    assert all(HAN.search(chinese[cell.id]) for cell in found.cells if cell.is_text)


@pytest.mark.parametrize("found", written(), ids=lambda each: each.stem)
def test_every_text_of_a_lesson_has_an_id_and_a_heading(found: Lesson) -> None:
    """Guards the outline and the links: steps are named in both languages, and no id is used twice."""
    ids = [step.id for step in found.steps]
    assert all(ids) and len(set(ids)) == len(ids)
    for lang in ("en", "zh"):
        assert all(step.title(lang, found.stem) != step.id for step in found.steps), lang


@pytest.mark.parametrize("picture", PICTURES.values(), ids=lambda each: each.name)
def test_every_figure_has_chinese_words(picture: Picture) -> None:
    """Guards figures: titles, axes and sentences in both languages."""
    chinese = _twin(f"figures/{picture.name}")
    _compare(dict(picture.words), chinese, {id for id, text in picture.words.items() if "%{" not in text})


def test_the_kit_speaks_chinese() -> None:
    """Guards the kit's own sentences: progress of a race, what became of a learner's code, the report."""
    english: dict[str, str] = {}
    for path in [*(ROOT / "lessons" / "kit").glob("*.py"), ROOT / "lessons" / "report.py"]:
        english |= says_in(path.read_text("utf-8"))
    _compare(english, _twin("kit"), set(english))


def test_the_list_has_all_lessons_in_both_languages() -> None:
    """Guards the list: 19 lessons in order; those before a lesson exist."""
    assert [plan.id for plan in plans()] == [f"L{number}" for number in range(19)]
    known = {plan.id for plan in plans()}
    for plan in plans():
        assert set(plan.needs) <= known and all(plan.title) and HAN.search(plan.title[1])
