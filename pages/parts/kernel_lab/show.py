"""What the sections share: figures with badge, words and table in the reader's language, and a job while it runs."""

from collections.abc import Callable, Mapping

import plotly.graph_objects as go
import streamlit as st

from lessons.figures import fusion, kv_error, kv_quant, losses, roofline, stages, weight_quant
from lessons.figures.style import Theme
from pages.parts.badge import BORDERS
from pages.parts.kernel_lab.jobs import Job, jobs
from pages.parts.words import language, sentences, t

FIGURES = (roofline, fusion, kv_quant, kv_error, weight_quant, stages, losses)
EVERY_S = 0.5  # between two looks at a job
CONFIG = {"displaylogo": False, "displayModeBar": False}


def theme() -> Theme:
    """Light or dark, as the browser shows the page."""
    return "dark" if st.context.theme.type == "dark" else "light"


def figure_words() -> Mapping[str, str]:
    """The words of the figures and their badges."""
    known, names = sentences(language()), [name for each in FIGURES for name in each.WORDS]
    return {name: known[f"kernel_lab.fig.{name}"] for name in names} | {kind: t(f"badge.{kind}") for kind in BORDERS}


def figure(drawn: go.Figure, key: str, words: str) -> None:
    """A figure; ``words`` say it to those who do not see it."""
    st.plotly_chart(drawn, theme=None, key=key, config=CONFIG, alt=words)


def table(columns: Mapping[str, list], key: str, height: int | str = "content") -> None:
    """The numbers of a figure; ``height`` in pixels, or as many lines as there are."""
    st.dataframe(dict(columns), key=key, hide_index=True, height=height, placeholder="–")


def watch(find: Callable[[], Job | None], draw: Callable[[Job], None]) -> None:
    """Draw a job that runs twice a second; draw the whole page again once it has ended."""
    job = find()
    if job is None or not job.running:
        return

    @st.fragment(run_every=EVERY_S)
    def look() -> None:
        now = find()
        if now is None or not now.running:
            st.rerun()
        draw(now)

    look()


def computed(name: str, module: str, words: str, draw: Callable[[str], None]) -> None:
    """Draw the output of ``python -m module``, which runs once for each server, as soon as somebody looks; ``words``
    say meanwhile what it does."""
    job = jobs().get(name) or jobs().start(name, (module,))
    if job.running:
        watch(lambda: jobs().get(name), lambda now: _waits(words, now))
    elif job.error:
        st.error(t("kernel_lab.failed", why=job.error), icon=":material/error:")
        if st.button(t("kernel_lab.retry"), key=f"kernel_lab_retry_{name.replace(' ', '_')}"):
            jobs().start(name, (module,))
            st.rerun()
    else:
        draw(job.output)


def _waits(words: str, job: Job) -> None:
    st.markdown(t("kernel_lab.running", what=words, s=f"{job.seconds:.0f}"))
