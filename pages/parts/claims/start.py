"""Asking for measurements, and what is said while they run."""

from collections.abc import Sequence

import streamlit as st

from pages.parts.claims.queue import Queue, queue
from pages.parts.desk import desk
from pages.parts.page import tab
from pages.parts.session import session
from pages.parts.words import t

EVERY_S = 0.5  # between two looks at the queue


def start(names: Sequence[str]) -> None:
    """Ask for measurements, unless another tab drives the engine or the engine is busy."""
    if not desk().seat.take(tab()):
        st.error(t("notice.other_tab"))
    elif busy := session().status().busy:
        st.error(t("notice.busy", detail=busy))
    else:
        queue().ask(names)
        st.rerun()


def watch() -> None:
    """While something runs: what, for how long, what waits, and the button that ends it. Behind it: what failed."""
    if queue().running:
        _look(queue().done)
        return
    for name, why in queue().failures.items():
        st.error(t("claims.failed", what=t(f"claims.measure.{name}"), why=why), icon=":material/error:")


@st.fragment(run_every=EVERY_S)
def _look(done: int) -> None:
    now = queue()
    if not now.running or now.done != done:
        st.rerun()  # a finding has come in: the whole page shows it
    with st.container(horizontal=True, vertical_alignment="center"):
        st.progress(_share(now), text=_words(now))
        if st.button(t("claims.stop"), key="claims_stop"):
            now.stop()


def _share(now: Queue) -> float:
    return min(0.98, (now.done + 0.5) / (now.done + 1 + len(now.waiting)))


def _words(now: Queue) -> str:
    if not now.now:
        return t("claims.starting")
    job = now.job
    what, seconds = (job.words, job.seconds) if job is not None else ("", 0.0)
    words = t(
        "claims.running", name=t(f"claims.measure.{now.now}"), what=what or t("claims.starting"), s=f"{seconds:.0f}"
    )
    return words + (t("claims.then", n=len(now.waiting)) if now.waiting else "")
