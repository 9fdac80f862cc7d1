"""The provenance badge: where a number comes from, said by a word and by the style of the border."""

from html import escape
from typing import Literal

import streamlit as st

from pages.parts.words import t

Provenance = Literal["Measured", "Computed", "Simulated", "Recorded", "Schematic"]
BORDERS = {
    "Measured": "solid",
    "Computed": "dotted",
    "Simulated": "dashed",
    "Recorded": "double",
    "Schematic": "dashed",
}


def badge_html(kind: Provenance, detail: str = "") -> str:
    """The badge as HTML; ``detail`` (device, n, file, date, formula) is shown beside the word."""
    width = 3 if BORDERS[kind] == "double" else 1.5
    words = escape(t(f"badge.{kind}") + (f" · {detail}" if detail else ""))
    style = (
        f"border:{width}px {BORDERS[kind]} currentColor;border-radius:4px;padding:0 6px;font-size:12px;font-weight:600"
    )
    return f'<span class="fd-provenance" data-kind="{kind}" style="{style}">{words}</span>'


def badge(kind: Provenance, detail: str = "") -> None:
    """Draw the badge."""
    st.html(badge_html(kind, detail))
