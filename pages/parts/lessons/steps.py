"""The step in sight: its text, then what its code put on the stage, in order; and why it ends where it ends."""

from collections.abc import Callable

import streamlit as st

from lessons.kit.items import (
    Exercise,
    Experiment,
    Figure,
    Item,
    Note,
    Printed,
    Question,
    Reconciled,
    Takeaway,
)
from lessons.run import CellRun
from pages.parts.lessons import asking, comparing, running, solving
from pages.parts.lessons.outline import passed
from pages.parts.lessons.visit import Visit
from pages.parts.words import language, t

TONES = {"info": st.info, "good": st.success, "careful": st.warning}


def draw(here: Visit) -> None:
    """The text, the items, and the code to read. Of a locked step nothing at all: its text may tell the answer too."""
    step = here.lesson.steps[here.step]
    waits = here.run.open_step(here.step)
    if waits is not None:
        _locked(here, waits)
        return
    st.html(f'<span class="ls-kind">{t(f"lessons.kind.{step.kind}")}</span>')
    st.markdown(here.lesson.text(step.text, language()))
    shown = here.run.items(here.step)
    asking.draw(here, [item for _, items in shown for item in items if isinstance(item, Question)])
    for run, items in shown:
        for item in items:
            if not isinstance(item, Question | Figure):
                DRAW[type(item)](here, item)
        if run.error:
            st.error(t("lessons.cell_failed"), icon=":material/error:")
            st.code(run.error, language="python")
    _code(here, [run for run, _ in shown])


def _locked(here: Visit, waits: int) -> None:
    """Something before this step waits for the learner: nothing of this step was computed."""
    st.markdown(f"## {here.lesson.steps[here.step].title(language(), here.lesson.stem)}")
    title = here.lesson.steps[waits].title(language(), here.lesson.stem)
    with st.container(border=True):
        st.markdown(t("lessons.locked_until", n=waits + 1, title=title))
        label = t("lessons.go_there")
        st.button(label, key="lesson_go_there", type="primary", icon=":material/lock:", on_click=here.go, args=(waits,))


def _code(here: Visit, runs: list[CellRun]) -> None:
    """The code of the step, to read; that of an exercise holds its grader, and opens once it is passed."""
    tasks = [item for run in runs for item in run.items if isinstance(item, Exercise)]
    if not all(passed(here, task) for task in tasks):
        st.caption(t("lessons.code_later"))
        return
    if not runs:
        return
    with st.expander(t("lessons.code"), icon=":material/code:"):
        for run in runs:
            st.caption(f"lessons/{here.lesson.path.name}:{run.cell.line}")
            st.code(run.cell.source, language="python")


def _note(here: Visit, item: Note) -> None:
    draw_with: Callable = TONES.get(item.tone, st.markdown)
    draw_with(here.stage.text(item.text))


def _printed(here: Visit, item: Printed) -> None:
    st.code(item.text, language=None)


def _takeaway(here: Visit, item: Takeaway) -> None:
    with st.container(border=True, key="lesson_takeaway"):
        st.markdown(f"**{t('lessons.takeaway')}**  \n{here.stage.text(item.text)}")
        ledger = here.stage.progress.ledger
        for name in item.carried:
            if name in ledger:
                entry = ledger[name]
                st.markdown(t("lessons.carried", name=name, value=f"{entry.value:.4g}", unit=entry.unit, how=entry.how))


DRAW: dict[type[Item], Callable[[Visit, Item], None]] = {
    Note: _note,
    Experiment: running.draw,
    Reconciled: comparing.draw,
    Exercise: solving.draw,
    Takeaway: _takeaway,
    Printed: _printed,
}
