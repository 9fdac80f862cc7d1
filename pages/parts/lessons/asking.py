"""Predictions: the widgets of the open questions of a step, their lock, and what was locked."""

import streamlit as st

from lessons.kit.cells import miss
from lessons.kit.forms import Choice, Choices, Form, Number
from lessons.kit.items import Question
from lessons.kit.progress import Answer
from pages.parts.lessons.visit import Visit
from pages.parts.words import t

RIGHT = 1.05  # a prediction within this factor is called right


def draw(here: Visit, questions: list[Question]) -> None:
    """All questions of a step: open ones with one lock for all of them, settled ones as sentences."""
    settled = {question.id: here.stage.answer(question) for question in questions}
    still_open = [question for question in questions if settled[question.id] is None]
    if still_open:
        with st.container(border=True, key="lesson_question"):
            _open(here, still_open)
    for question in questions:
        if settled[question.id] is not None:
            _settled(here, question, settled[question.id])


def _open(here: Visit, questions: list[Question]) -> None:
    values = {}
    for question in questions:
        st.markdown(here.stage.text(question.text))
        values[question.id] = widget(here, question.form, f"lesson_q_{here.stage.key}_{question.id}")
        for hint in question.hints:
            with st.expander(t("lessons.hint"), icon=":material/lightbulb:"):
                st.markdown(here.stage.text(hint))
    with st.container(horizontal=True, vertical_alignment="center"):
        given = all(value is not None for value in values.values())
        lock = {"type": "primary", "icon": ":material/lock:", "shortcut": "Enter", "disabled": not given}
        st.button(t("lessons.lock"), key="lesson_lock", on_click=_settle, args=(here, questions, values), **lock)
        skip = (here, questions, dict.fromkeys(values))
        st.button(t("lessons.anyway"), key="lesson_anyway", type="tertiary", on_click=_settle, args=skip)
        st.caption(t("lessons.lock_why"))


def _settle(here: Visit, questions: list[Question], values: dict[str, object]) -> None:
    for question in questions:
        value = values[question.id]
        clean = None if value is None else question.form.clean(value)
        here.stage.progress.settle(here.stage.key, question.id, clean)


def widget(here: Visit, form: Form, key: str) -> object:
    """What the learner has entered, None where nothing is chosen yet."""
    if isinstance(form, Number):
        shown = f"%g{form.unit if form.unit == 'x' else ' ' + form.unit}"
        bounds = float(form.low), float(form.high), float(form.start), float(form.step)
        return st.slider(t("lessons.value"), *bounds, key=key, format=shown, label_visibility="collapsed")
    names = {name: here.stage.text(words) for name, words in form.options.items()}
    if isinstance(form, Choice):
        options = {"index": None, "format_func": names.get, "label_visibility": "collapsed"}
        return st.radio(t("lessons.value"), list(names), key=key, **options)
    return _several(form, names, key)


def _several(form: Choices, names: dict[str, str], key: str) -> list[str] | None:
    picked = [name for name, words in names.items() if st.checkbox(words, key=f"{key}_{name}")]
    st.caption(t("lessons.pick", n=form.count))
    return picked if len(picked) == form.count else None


def _settled(here: Visit, question: Question, answer: Answer) -> None:
    """The question with what was locked, and how far it is off once that is known."""
    with st.container(border=True):
        st.markdown(here.stage.text(question.text))
        st.markdown(f":material/lock: {_words(here, question, answer)}")


def _words(here: Visit, question: Question, answer: Answer) -> str:
    """What became of the prediction; before a class nobody's number is shown."""
    if here.link.present:
        return t("lessons.locked_hidden")
    if answer.skipped:
        return t("lessons.skipped")
    if not isinstance(question.form, Number):
        chosen = here.stage.text(question.form.options[answer.value])
        if answer.observed is None:
            return t("lessons.locked", value=chosen)
        if answer.observed == answer.value:
            return t("lessons.came_true", value=chosen)
        return t(
            "lessons.came_otherwise", value=chosen, observed=here.stage.text(question.form.options[answer.observed])
        )
    value = number(answer.value, question.form.unit)
    if answer.observed is None:
        return t("lessons.locked", value=value)
    off, seen = miss(answer.value, answer.observed).factor, number(answer.observed, question.form.unit)
    if off <= RIGHT:
        return t("lessons.spot_on", value=value, observed=seen)
    side = t("lessons.too_high" if answer.value > answer.observed else "lessons.too_low")
    return t("lessons.scored", value=value, observed=seen, miss=f"{off:.2f}", side=side)


def number(value: float, unit: str) -> str:
    """A number with its unit: ``1.85x``, ``0.42 ms``."""
    if unit == "x":
        return f"{value:.2f}x"
    shown = f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"
    return f"{shown}{unit}" if unit == "%" else f"{shown} {unit}".strip()
