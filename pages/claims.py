"""The Claim Auditor: 184 published claims about LLM serving, what is to be said about each, and what this machine says.

``?claim=S1-33`` opens one claim, ``?part=estimators`` the two estimators of article S1.
"""

import streamlit as st

from lessons.audit.report import entries as all_entries
from pages.parts.claims import cards, estimators, filters, start, tally
from pages.parts.claims.chips import STYLE
from pages.parts.claims.measured import sources
from pages.parts.page import kept
from pages.parts.words import t

PARTS = ("claims", "estimators")


def main() -> None:
    """Draw the page."""
    st.html(STYLE)
    known = sources()
    entries = all_entries(known)
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        title = st.container(width="stretch")
        part = _part()
        tally.buttons(entries, known)
    title.html(f"<h1 style='font-size:22px;padding:0;margin:0'>{t('claims.title')}</h1><div>{t('claims.sub')}</div>")
    start.watch()
    if part == "estimators":
        estimators.draw(known)
        return
    tally.draw(entries, known)
    cards.draw(filters.chosen(entries, known), known)


def _part() -> str:
    """Which part is shown: ``?part=`` of the address at first, then the reader's choice."""
    asked = st.query_params.get("part")
    kept("claims_part", asked if asked in PARTS else PARTS[0])
    return st.segmented_control(
        t("claims.part"),
        PARTS,
        key="claims_part",
        format_func=lambda name: t(f"claims.part.{name}"),
        required=True,
        label_visibility="collapsed",
    )


main()
