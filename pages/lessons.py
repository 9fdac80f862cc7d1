"""The lessons: a list, or one of them step by step. Predict, lock, run it on this machine, compare, be graded.

What a learner has not predicted yet is not computed, so no answer can be in the page before the lock.
"""

import streamlit as st

from pages.parts.lessons import bar, catalog, links, outline, panel, steps
from pages.parts.lessons.look import dress
from pages.parts.lessons.visit import Visit, visit
from pages.parts.words import t


def main() -> None:
    """Draw the page."""
    link = links.read()
    here = visit(link)
    dress(link.present)
    if here is None:
        if link.lesson:
            st.info(t("lessons.not_written_named", lesson=link.lesson), icon=":material/info:")
        catalog.draw()
        return
    _lesson(here)


def _lesson(here: Visit) -> None:
    """One lesson: outline, the step in sight, and its figures with the glossary."""
    bar.take_work(here)
    here.run.advance(here.step)
    bar.draw(here)
    with st.container(key="lesson_body"):
        with st.container(key="lesson_outline"):
            outline.draw(here)
        with st.container(key="lesson_cells"):
            steps.draw(here)
        with st.container(key="lesson_panel"):
            panel.draw(here)
    bar.write_address(here)


main()
