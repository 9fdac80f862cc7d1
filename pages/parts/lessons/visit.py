"""One tab in one lesson: its link, its run, and the step in sight. A visit lasts as long as the tab."""

from dataclasses import dataclass

import streamlit as st

from lessons.book import Lesson
from lessons.kit.progress import own_progress
from lessons.kit.shelf import own_results
from lessons.run import LessonRun
from pages.parts.lessons.links import Link
from pages.parts.lessons.stage import AppStage
from pages.parts.session import session
from pages.parts.words import language


@dataclass(slots=True)
class Visit:
    """A lesson in this tab. ``step`` counts from 0."""

    lesson: Lesson
    link: Link
    stage: AppStage
    run: LessonRun
    step: int = 0

    @property
    def last(self) -> int:
        """The last step."""
        return len(self.lesson.steps) - 1

    def go(self, step: int) -> None:
        """Turn to a step."""
        self.step = max(0, min(self.last, step))
        self.stage.progress.reach(self.stage.key, self.step)

    def again(self, item: object) -> None:
        """What depends on an item's cell runs again."""
        self.run.again(self.run.place_of(item))


def visit(link: Link) -> Visit | None:
    """The visit that a link asks for; None when its lesson is not written."""
    found = link.opened()
    if found is None:
        return None
    visits = st.session_state.setdefault("lesson_visits", {})
    name = (found.id, link.seed, found.path.stat().st_mtime_ns)
    if name not in visits:
        visits[name] = _begun(found, link)
    here = visits[name]
    if here.link != link:
        step = found.step_named(link.cell)
        if step is not None and step != here.step:
            here.go(step)
        here.link = link
    here.stage.language = language()
    return here


def _begun(lesson: Lesson, link: Link) -> Visit:
    stage = AppStage(lesson, link.seed, own_progress(), own_results(), session())
    begun = Visit(lesson, link, stage, LessonRun(lesson, stage))
    begun.go(lesson.step_named(link.cell) or 0)
    return begun


def forget() -> None:
    """Leave all lessons of this tab: what was reset starts anew."""
    st.session_state.pop("lesson_visits", None)
