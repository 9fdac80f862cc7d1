"""One card per claim: what is said, the verdict, what is to be said about it, the finding, and the way to one."""

from collections.abc import Sequence
from html import escape
from urllib.parse import urlencode

import streamlit as st

from lessons.audit.finding import Finding, quantity
from lessons.audit.registry import Sources
from lessons.audit.report import Entry, finding
from lessons.audit.words import say
from pages.parts.badge import badge_html
from pages.parts.claims.chips import outcome_chip, verdict_chip
from pages.parts.claims.queue import able, left, queue
from pages.parts.claims.start import start
from pages.parts.page import kept
from pages.parts.words import language, t

PER_PAGE = 12
ESTIMATORS = {"estimate_gain", "estimate_fusion", "unused_arguments", "waste_uniform"}


def draw(entries: Sequence[Entry], known: Sources) -> None:
    """The cards of one page in two columns, and the buttons to the other pages."""
    if not entries:
        st.info(t("claims.none"), icon=":material/search_off:")
        return
    pages = -(-len(entries) // PER_PAGE)
    at = min(kept("claims_page", 1), pages)
    shown = entries[(at - 1) * PER_PAGE : at * PER_PAGE]
    for pair in zip(shown[::2], [*shown[1::2], None]):
        for column, entry in zip(st.columns(2, gap="small"), pair):
            if entry is not None:
                with column, st.container(border=True, height="stretch"):
                    _card(entry, known)
    if pages > 1:
        _turn(at, pages, len(entries))


def _card(entry: Entry, known: Sources) -> None:
    found = finding(entry.claim, known)
    st.html(f'<article class="ca" aria-label="{entry.claim.id}">{_head(entry)}{_body(entry, found)}</article>')
    if names := left(entry, known):
        _button(entry, names)


def _button(entry: Entry, lacking: list[str]) -> None:
    """Measure what this machine has not measured yet; a sentence where it cannot."""
    if not all(able(name) for name in lacking):
        st.caption(t("claims.needs_gpu"))
        return
    busy = queue().running
    names = ", ".join(t(f"claims.measure.{name}") for name in lacking)
    if st.button(
        t("claims.run", what=names), key=f"claims_run_{entry.claim.id}", icon=":material/play_arrow:", disabled=busy
    ):
        start(lacking)


def _head(entry: Entry) -> str:
    claim = entry.claim
    link = "?" + urlencode({"claim": claim.id, "lang": language()})
    more = _estimator_link() if claim.experiment in ESTIMATORS else ""
    lesson = f'<span class="ca-dim">{escape(t("claims.in_lesson", lesson=claim.lesson))}</span>' if claim.lesson else ""
    return (
        f'<div class="ca-head"><a href="{link}" target="_self">{claim.id}</a>{lesson}{more}'
        f"{verdict_chip(claim.verdict)}</div>"
        f'<p class="ca-claim">{escape(claim.claim[language()])}</p>'
        f'<p class="ca-note">{escape(claim.note[language()])}</p>'
    )


def _estimator_link() -> str:
    """To the widgets of the two estimators."""
    link = "?" + urlencode({"part": "estimators", "lang": language()})
    return f'<a class="ca-more" href="{link}" target="_self">{escape(t("claims.part.estimators"))} →</a>'


def _body(entry: Entry, found: Finding | None) -> str:
    if found is not None:
        return _found(found)
    if entry.claim.missing is not None:
        return f'<p class="ca-lacks">○ {escape(t("claims.lacks"))} {escape(entry.claim.missing[language()])}</p>'
    names = ", ".join(t(f"claims.measure.{name}") for name in entry.needs)
    return f'<p class="ca-lacks">▷ {escape(t("claims.not_yet", what=names))}</p>'


def _found(found: Finding) -> str:
    """Outcome, provenance, the sentence; numbers and formula folded."""
    rows = "".join(
        f"<tr><td><code>{escape(name)}</code></td><td>{escape(quantity(*number))}</td></tr>"
        for name, number in found.numbers.items()
    )
    folded = (
        f"<details><summary>{escape(t('claims.numbers'))}</summary><table>{rows}</table>"
        f"<code>{escape(found.formula)}</code></details>"
    )
    head = outcome_chip(found.outcome) + badge_html(found.provenance, found.where)
    sentence = escape(say(found, language()))
    return f'<div class="ca-found ca-{found.outcome}"><div class="ca-row">{head}</div><p>{sentence}</p>{folded}</div>'


def _turn(at: int, pages: int, count: int) -> None:
    with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="center", gap="small"):
        for name, to, key in (("before", at - 1, "Shift+Left"), ("after", at + 1, "Shift+Right")):
            off, step = not 1 <= to <= pages, {"on_click": _go, "args": (to,)}
            st.button(t(f"claims.page_{name}"), key=f"claims_{name}", disabled=off, shortcut=key, **step)
            if name == "before":
                st.markdown(t("claims.page_at", at=at, pages=pages, count=count), width="content")


def _go(to: int) -> None:
    st.session_state["kept"]["claims_page"] = st.session_state["claims_page"] = to
