"""The head of the page: how many claims there are, how many are answered and by what, and the way to more."""

from collections import Counter
from collections.abc import Sequence
from html import escape

import streamlit as st

from lessons.audit.measure.catalogue import ALL
from lessons.audit.registry import Sources
from lessons.audit.report import Entry, as_csv, as_json, needs_of
from pages.parts.claims.measured import is_own
from pages.parts.claims.queue import able, can_run, queue
from pages.parts.claims.start import start
from pages.parts.words import language, t

KINDS = ("Measured", "Recorded", "Simulated", "Computed")
COLORS = {"Measured": "#009E73", "Recorded": "#0072B2", "Simulated": "#CC79A7", "Computed": "#E69F00"}
PATTERNS = {"Recorded": "135deg", "Simulated": "45deg"}  # hatched, so that colour is not the only signal


def draw(entries: Sequence[Entry], known: Sources) -> None:
    """A bar over all claims, cut by provenance, and the same in words."""
    count = Counter(entry.provenance for entry in entries)
    states = Counter(entry.state for entry in entries)
    pieces = "".join(_piece(kind, count[kind] / len(entries)) for kind in KINDS if count[kind])
    words = "".join(_words(t(f"badge.{kind}"), count[kind], COLORS[kind]) for kind in KINDS)
    words += _words(t("claims.state.missing"), states["missing"])
    words += _words(t("claims.state.can_run"), sum(can_run(entry, known) for entry in entries))
    label = escape(t("claims.tally", answered=states["answered"], count=len(entries)))
    st.html(
        f'<div class="ca-tally" role="img" aria-label="{label}"><span><b>{states["answered"]}</b> / {len(entries)} '
        f"{escape(t('claims.answered'))}</span>{words}</div><div class='ca-bar' aria-hidden='true'>{pieces}</div>"
    )


def buttons(entries: Sequence[Entry], known: Sources) -> None:
    """Measure all that this machine can and has not, and export what there is."""
    asked = {name for entry in entries for name in needs_of(entry.claim)}
    order = [*ALL, "kernels"]
    left = [name for name in order if name in asked and able(name) and not is_own(name, known)]
    label = t("claims.run_all", n=len(left)) if left else t("claims.run_again")
    if st.button(label, key="claims_run_all", type="primary", disabled=queue().running, help=t("claims.run_all_help")):
        start(left or [name for name in order if name in asked and able(name)])
    with st.popover(t("claims.export"), icon=":material/download:"):
        lang = language()
        for kind, make, mime in (("json", as_json, "application/json"), ("csv", as_csv, "text/csv")):
            name = f"flightdeck-claims.{kind}"
            st.download_button(
                kind.upper(), lambda make=make: make(known, lang), name, mime, key=f"claims_{kind}", on_click="ignore"
            )


def _piece(kind: str, share: float) -> str:
    color, angle = COLORS[kind], PATTERNS.get(kind)
    stripes = f"repeating-linear-gradient({angle},{color} 0 5px,color-mix(in srgb,{color} 45%,transparent) 5px 8px)"
    return f'<i style="width:{100 * share:.2f}%;background:{stripes if angle else color}"></i>'


def _words(name: str, count: int, color: str = "") -> str:
    dot = f'<i class="ca-dot" style="background:{color}"></i>' if color else ""
    return f"<span>{dot}<b>{count}</b> {escape(name)}</span>"
