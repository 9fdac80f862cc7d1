"""The outline of a lesson: every step with its kind, where the learner is, and what is still open."""

import streamlit as st

from lessons.book import Step
from lessons.kit.items import Exercise, Experiment, Item, Question
from pages.parts.lessons.links import Link, write
from pages.parts.lessons.visit import Visit
from pages.parts.words import language, t

ICONS = {
    "context": "menu_book",
    "question": "lock",
    "experiment": "play_circle",
    "figures": "bar_chart",
    "reconcile": "balance",
    "exercise": "edit",
    "takeaway": "flag",
}


def draw(here: Visit) -> None:
    """One button for each step."""
    st.html(f"<b>{t('lessons.outline')}</b>")
    for at, step in enumerate(here.lesson.steps):
        _entry(here, at, step)
    if st.button(t("lessons.all"), key="lesson_all", type="tertiary", icon=":material/arrow_back:"):
        write(Link(lang=language()))
        st.rerun()


def _entry(here: Visit, at: int, step: Step) -> None:
    kind = "primary" if at == here.step else "tertiary"
    title = f"{at + 1}. {step.title(language(), here.lesson.stem)}"
    st.button(
        f"{title} ✓" if _done(here, at) else title,
        key=f"lesson_step_{at}",
        type=kind,
        icon=f":material/{ICONS[step.kind]}:",
        width="stretch",
        help=t(f"lessons.kind.{step.kind}"),
        on_click=here.go,
        args=(at,),
    )


def _done(here: Visit, at: int) -> bool:
    """Whether a step asked something of the learner that is settled, run or passed."""
    items = [item for _, items in here.run.items(at) for item in items]
    asks = [item for item in items if isinstance(item, Question | Experiment | Exercise)]
    return bool(asks) and here.run.open_step(at + 1) is None and all(passed(here, item) for item in asks)


def passed(here: Visit, item: Item) -> bool:
    """Whether an exercise was passed; anything else has nothing to pass."""
    if not isinstance(item, Exercise):
        return True
    known = here.stage.progress.attempt(here.stage.key, item.id)
    return known is not None and known.passed
