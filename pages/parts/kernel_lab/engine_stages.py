"""The engine stage by stage: from transformers to all techniques, and what is lost on the way to the limit."""

import streamlit as st

from lessons.figures.losses import losses_figure, losses_summary, losses_table
from lessons.figures.stages import stages_figure, stages_summary, stages_table
from pages.parts.kernel_lab import measure
from pages.parts.kernel_lab.runs import Run
from pages.parts.kernel_lab.show import figure, figure_words, table, theme
from pages.parts.words import t


def draw() -> None:
    """The section."""
    _stages(measure.choose(measure.STAGES_BENCH))
    st.subheader(t("kernel_lab.losses.title"), anchor=False)
    _losses(measure.choose(measure.THROUGHPUT))


def _stages(run: Run | None) -> None:
    if run is None:
        st.markdown(t("kernel_lab.stages.empty"))
        return
    words = figure_words()
    summary = stages_summary(run.document, words)
    with st.container(border=True):
        drawn = stages_figure(run.document, run.provenance, theme(), "", words)
        figure(drawn, "kernel_lab_stages", summary)
    st.markdown(summary)
    st.caption(t("kernel_lab.stages.note"))
    table(stages_table(run.document, words), "kernel_lab_stages_table")


def _losses(run: Run | None) -> None:
    if run is None:
        st.markdown(t("kernel_lab.losses.empty"))
        return
    words = figure_words()
    summary = losses_summary(run.document, words)
    with st.container(border=True):
        drawn = losses_figure(run.document, run.provenance, theme(), "", words)
        figure(drawn, "kernel_lab_losses", summary)
    st.markdown(summary)
    st.caption(t("kernel_lab.losses.note"))
    table(losses_table(run.document, words), "kernel_lab_losses_table")
