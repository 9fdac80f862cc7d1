"""Weight quantisation: when fewer bytes mean fewer microseconds, when they do not, and what they cost in error."""

import json

import streamlit as st

from engine.workload.weight_curves import curves
from lessons.figures import weight_quant
from pages.parts.kernel_lab import measure
from pages.parts.kernel_lab.runs import Run
from pages.parts.kernel_lab.show import computed, figure, figure_words, table, theme
from pages.parts.page import kept
from pages.parts.words import t

JOB = "weight error"


def draw() -> None:
    """The section."""
    run = measure.choose(measure.KERNELS)
    layers = list(curves(run.document)) if run else []
    left, right = st.columns([3, 2], gap="small")
    with left, st.container(border=True, height="stretch"):
        if layers:
            _speed(run, layers)
        else:
            st.info(t("kernel_lab.weights.not_in_run"), icon=":material/info:")
    with right, st.container(border=True, height="stretch"):
        computed(JOB, "engine.workload.weight_error", t("kernel_lab.weights.reading"), _errors)


def _speed(run: Run, layers: list[str]) -> None:
    """Time against tokens for one layer of the run."""
    kept("kernel_lab_layer", layers[0])
    if st.session_state["kernel_lab_layer"] not in layers:  # of another run
        st.session_state["kernel_lab_layer"] = layers[0]
    layer = st.segmented_control(t("kernel_lab.weights.layer"), layers, key="kernel_lab_layer", required=True)
    words = figure_words()
    summary = weight_quant.weight_summary(run.document, layer, words)
    drawn = weight_quant.weight_figure(run.document, layer, run.provenance, theme(), "", words)
    figure(drawn, "kernel_lab_weights", summary)
    st.markdown(summary)
    st.caption(t("kernel_lab.weights.note"))
    with st.expander(t("kernel_lab.as_table")):
        table(weight_quant.weight_table(run.document, layer, words), "kernel_lab_weights_table")


def _errors(output: str) -> None:
    """int4 on the bundled model's own weights."""
    found, words = json.loads(output), figure_words()
    summary = weight_quant.group_summary(found, words)
    figure(weight_quant.group_figure(found, theme(), words), "kernel_lab_groups", summary)
    st.markdown(summary)
    st.caption(t("kernel_lab.weights.error_note"))
    with st.expander(t("kernel_lab.as_table")):
        table(weight_quant.group_table(found, words), "kernel_lab_groups_table")
