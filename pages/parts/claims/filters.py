"""Which claims are shown: article, verdict, lesson, how far, and words; a link may name one claim."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import streamlit as st

from lessons.audit.registry import Sources
from lessons.audit.report import Entry, finding
from lessons.audit.rows import ARTICLES, VERDICTS, articles, claims
from lessons.audit.words import say
from pages.parts.claims.chips import VERDICT_GLYPHS
from pages.parts.claims.queue import can_run
from pages.parts.page import kept
from pages.parts.words import language, t

STATES: Mapping[str, Callable[[Entry, Sources], bool]] = {
    "answered": lambda entry, known: entry.state == "answered",
    "can_run": can_run,
    "missing": lambda entry, known: entry.state == "missing",
}
ALL_LESSONS = ""


def chosen(entries: Sequence[Entry], known: Sources) -> list[Entry]:
    """Draw the filters; returns the entries that pass all of them."""
    asked = st.query_params.get("claim", "")
    if asked in claims() and st.session_state.get("claims_linked") != asked:
        st.session_state["claims_linked"] = asked
        _clear()
        st.session_state["claims_text"] = asked
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        kept("claims_text", "")
        words = st.text_input(
            t("claims.search"), key="claims_text", placeholder=t("claims.search_hint"), width=240, on_change=_first_page
        )
        lessons = [ALL_LESSONS, *_lessons(entries)]
        kept("claims_lesson", ALL_LESSONS)
        lesson = st.selectbox(
            t("claims.lesson"), lessons, key="claims_lesson", format_func=_lesson_name, width=130, on_change=_first_page
        )
        titles = "\n".join(f"- **{name}** {title[language()]}" for name, title in articles().items())
        article = _pills("claims_article", t("claims.article"), ARTICLES, str, titles)
        state = _pills("claims_state", t("claims.state"), list(STATES), lambda name: t(f"claims.state.{name}"))
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        verdict = _pills("claims_verdict", t("claims.verdict"), VERDICTS, lambda name: _verdict_name(name, entries))
        st.button(t("claims.clear"), key="claims_clear", type="tertiary", on_click=_clear)
    passing = [entry for entry in entries if not article or entry.claim.article in article]
    passing = [entry for entry in passing if not verdict or entry.claim.verdict in verdict]
    passing = [entry for entry in passing if not state or any(STATES[name](entry, known) for name in state)]
    passing = [entry for entry in passing if lesson == ALL_LESSONS or entry.claim.lesson == lesson]
    return [entry for entry in passing if _holds(entry, known, words.strip().lower())]


def _pills(key: str, label: str, options: Sequence[str], name: Callable[[str], str], more: str = "") -> list[str]:
    kept(key, [])
    return st.pills(
        label, options, key=key, format_func=name, selection_mode="multi", help=more or None, on_change=_first_page
    )


def _first_page() -> None:
    """Other claims begin with their first page."""
    st.session_state.setdefault("kept", {})["claims_page"] = st.session_state["claims_page"] = 1


def _clear() -> None:
    store = st.session_state.setdefault("kept", {})
    empty = {"claims_text": "", "claims_lesson": ALL_LESSONS, "claims_page": 1}
    empty |= {"claims_article": [], "claims_verdict": [], "claims_state": []}
    for key, value in empty.items():
        store[key] = st.session_state[key] = value


def _holds(entry: Entry, known: Sources, words: str) -> bool:
    """Whether the id, the claim, the note, the lesson or the finding has all the words."""
    if not words:
        return True
    claim, lang = entry.claim, language()
    if words.upper() in claims():
        return claim.id == words.upper()
    found = finding(claim, known)
    parts = [claim.id, claim.claim[lang], claim.note[lang], claim.lesson, say(found, lang) if found else ""]
    text = " ".join(parts).lower()
    return all(word in text for word in words.split())


def _lessons(entries: Sequence[Entry]) -> list[str]:
    return sorted({entry.claim.lesson for entry in entries if entry.claim.lesson}, key=lambda name: int(name[1:]))


def _lesson_name(name: str) -> str:
    return name or t("claims.all")


def _verdict_name(name: str, entries: Sequence[Entry]) -> str:
    count = Counter(entry.claim.verdict for entry in entries)[name]
    return f"{VERDICT_GLYPHS[name]} {t(f'claims.verdict.{name}')} {count}"
