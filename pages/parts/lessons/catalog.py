"""The list of all lessons: what each is about, how far the learner is, and which are not written yet."""

import streamlit as st

from lessons.book import Plan, lesson, plans
from lessons.kit.progress import Progress, own_progress
from pages.parts.lessons import ledger
from pages.parts.lessons.links import Link, write
from pages.parts.words import language, t


def draw() -> None:
    """The list, and the learner's ledger beside it."""
    st.html(f"<h1 style='font-size:22px;padding:0;margin:0'>{t('lessons.title')}</h1><div>{t('lessons.sub')}</div>")
    progress = own_progress()
    left, right = st.columns([3, 2], gap="medium")
    with left:
        for each in plans():
            if each.path is not None:
                _written(each, progress)
        _not_written([each for each in plans() if each.path is None])
    with right:
        ledger.draw(progress)


def _not_written(waiting: list[Plan]) -> None:
    """Their names alone: nothing is promised."""
    if waiting:
        st.html(f"<b>{t('lessons.not_written')}</b>")
        st.caption("  \n".join(f"{each.id} · {each.name(language())}" for each in waiting))


def _written(each: Plan, progress: Progress) -> None:
    found = lesson(each.id)
    with st.container(border=True, horizontal=True, vertical_alignment="center"):
        needs = t("lessons.needs", names=", ".join(each.needs)) if each.needs else t("lessons.needs_nothing")
        about = f"**{each.id} · {each.name(language())}**  \n{t('lessons.minutes', n=each.minutes)} · {needs}"
        st.markdown(about, width="stretch")
        reached, steps = progress.reached(each.id), len(found.steps)
        state = t("lessons.finished") if progress.finished(each.id) else t("lessons.reached", at=reached + 1, of=steps)
        st.caption(state if reached else t("lessons.not_begun"))
        label = t("lessons.continue" if reached else "lessons.open")
        if st.button(label, key=f"lesson_open_{each.id}", type="primary"):
            write(Link(each.id, str(reached + 1), lang=language()))
            st.rerun()
