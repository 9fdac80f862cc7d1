"""A reconciliation as a table: theory, the learner's prediction, what was observed, and the error of each."""

from html import escape

import streamlit as st

from lessons.kit.cells import miss
from lessons.kit.items import Reconciled, Row
from pages.parts.badge import badge_html
from pages.parts.lessons.asking import number
from pages.parts.lessons.visit import Visit
from pages.parts.words import t


def draw(here: Visit, item: Reconciled) -> None:
    """The table; the row that the learner missed most is marked by a bar, a word and bold type."""
    missed = {row.question: off for row in item.rows if (off := _off(here, row)) is not None}
    worst = max(missed, key=missed.get, default="") if len(missed) > 1 else ""
    heads = ["", *(t(f"lessons.{name}") for name in ("theory", "you", "observed", "theory_error", "your_miss"))]
    lines = [_line(here, row, worst) for row in item.rows]
    head = "".join(f"<th>{each}</th>" for each in heads)
    origins = {"theory": item.theory, "observed": item.observed}
    badges = {name: badge_html(origin.kind, origin.detail) for name, origin in origins.items()}
    sources = f'<div class="ls-sources">{t("lessons.sources", **badges)}</div>'
    st.html(f'<table class="ls-table"><thead><tr>{head}</tr></thead><tbody>{"".join(lines)}</tbody></table>{sources}')


def _line(here: Visit, row: Row, worst: str) -> str:
    answer = here.stage.progress.answer(here.stage.key, row.question) if row.question else None
    off = _off(here, row)
    guessed = isinstance(answer.value, int | float) if answer else False
    you = "" if answer is None else number(answer.value, row.unit) if guessed else t("lessons.skipped_short")
    theory = "" if row.theory is None else number(row.theory, row.unit)
    error = "" if row.theory is None or not row.observed else _error(row, row.theory / row.observed - 1)
    marked = bool(worst) and row.question == worst
    missed = "" if off is None else f"{off:.2f}x" + (f" ← {t('lessons.missed_most')}" if marked else "")
    cells = [here.stage.text(row.label), theory, you, number(row.observed, row.unit), error, missed]
    style = ' class="ls-far"' if marked else ""
    return f"<tr{style}>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>"


def _error(row: Row, share: float) -> str:
    """The error of the theory, and whether it is within what the lesson allows."""
    shown = f"{round(100 * share):+d} %"
    if row.within is None:
        return shown
    name = "lessons.within" if abs(share) <= row.within else "lessons.beyond"
    return f"{shown} · {t(name, p=f'{100 * row.within:.0f}')}"


def _off(here: Visit, row: Row) -> float | None:
    """The factor by which the learner's number is off; None without one."""
    answer = here.stage.progress.answer(here.stage.key, row.question) if row.question else None
    if answer is None or not isinstance(answer.value, int | float):
        return None
    return miss(answer.value, row.observed).factor
