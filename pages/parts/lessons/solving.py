"""Exercises: the task, its widgets or an editor, hints one after the other, and the grader's word."""

import streamlit as st

from lessons.kit.cells import judge
from lessons.kit.forms import Code, Number
from lessons.kit.items import Exercise, Verdict
from pages.parts.guard import LOOPBACK
from pages.parts.lessons.asking import widget
from pages.parts.lessons.visit import Visit
from pages.parts.words import t


def draw(here: Visit, item: Exercise) -> None:
    """The exercise."""
    with st.container(border=True, key=f"lesson_exercise_{item.id}"):
        st.markdown(here.stage.text(item.task))
        if isinstance(item.form, Code) and not runs_code():
            st.code(item.form.starter, language="python")
            st.info(t("lessons.no_code_here"), icon=":material/shield:")
            return
        answer = _answer(here, item)
        with st.container(horizontal=True, vertical_alignment="center"):
            label = t("lessons.run_code" if isinstance(item.form, Code) else "lessons.check")
            key = f"lesson_check_{here.stage.key}_{item.id}"
            if st.button(label, key=key, type="primary", disabled=answer is None, icon=":material/check:"):
                _judge(here, item, answer)
            _hint_button(here, item)
        _hints(here, item)
        _said(here, item)


def runs_code() -> bool:
    """Whether a learner's own code may run: only on a server that nobody else can reach."""
    return (st.get_option("server.address") or "") in LOOPBACK


def _answer(here: Visit, item: Exercise) -> object:
    key = f"lesson_x_{here.stage.key}_{item.id}"
    if isinstance(item.form, Code):
        known = here.stage.progress.attempt(here.stage.key, item.id)
        start = known.answer if known and isinstance(known.answer, str) and known.answer else item.form.starter
        lines = max(start.count("\n"), item.form.starter.count("\n")) + 3
        options = {"height": 26 * lines + 30, "label_visibility": "collapsed"}
        return st.text_area(t("lessons.your_code"), start, key=key, **options)
    if isinstance(item.form, Number):
        bounds = {"min_value": float(item.form.low), "max_value": float(item.form.high), "step": float(item.form.step)}
        unit = t("lessons.your_number", unit=item.form.unit)
        return st.number_input(unit, value=None, key=key, width=240, **bounds)
    return widget(here, item.form, key)


def _judge(here: Visit, item: Exercise, answer: object) -> None:
    """Grade it; a mistake of the grader itself is said, never raised into the page."""
    try:
        with st.spinner(t("lessons.judging")), here.stage.on():
            verdict: Verdict | None = judge(item, answer)
    except ValueError as error:
        st.session_state[_key(here, item)] = None
        st.error(str(error))
        return
    st.session_state[_key(here, item)] = verdict


def _said(here: Visit, item: Exercise) -> None:
    """The newest word of the grader; that it passed stays after a reload."""
    verdict = st.session_state.get(_key(here, item))
    known = here.stage.progress.attempt(here.stage.key, item.id)
    if verdict is not None:
        tone, icon = (st.success, "check_circle") if verdict.passed else (st.warning, "cancel")
        tone(here.stage.text(verdict.why), icon=f":material/{icon}:")
    elif known is not None and known.passed:
        st.success(t("lessons.passed_before", n=known.tries), icon=":material/check_circle:")


def _hint_button(here: Visit, item: Exercise) -> None:
    shown = _shown_hints(here, item)
    if shown < len(item.hints):
        label = t("lessons.hint_next", n=shown + 1, of=len(item.hints))
        st.button(label, key=f"lesson_hint_{item.id}", type="tertiary", on_click=_more_hints, args=(here, item))


def _hints(here: Visit, item: Exercise) -> None:
    for hint in item.hints[: _shown_hints(here, item)]:
        st.markdown(f":material/lightbulb: {here.stage.text(hint)}")


def _more_hints(here: Visit, item: Exercise) -> None:
    st.session_state[f"{_key(here, item)}_hints"] = _shown_hints(here, item) + 1


def _shown_hints(here: Visit, item: Exercise) -> int:
    return st.session_state.get(f"{_key(here, item)}_hints", 0)


def _key(here: Visit, item: Exercise) -> str:
    return f"lesson_said_{here.stage.key}_{item.id}"
