"""KV quantisation on three axes that are judged apart: speed, capacity, error."""

import json

import streamlit as st

from engine.workload.kv_curves import lines
from lessons.figures import kv_error, kv_quant
from pages.parts.kernel_lab import measure
from pages.parts.kernel_lab.runs import Run
from pages.parts.kernel_lab.show import computed, figure, figure_words, table, theme
from pages.parts.words import t

JOB = "kv error"


def draw() -> None:
    """The section."""
    run = measure.choose(measure.KERNELS)
    left, right = st.columns([3, 2], gap="small")
    with left, st.container(border=True, height="stretch"):
        _speed(run)
    with right, st.container(border=True, height="stretch"):
        _capacity()
    with st.container(border=True):
        computed(JOB, "engine.workload.kv_error", t("kernel_lab.kv.writing"), _errors)


def _speed(run: Run | None) -> None:
    """Time against context, from a run that has 8-bit formats in it."""
    words = figure_words()
    if run is None or not lines(run.document)[1]:
        st.html(f"<b>{words['kv_time_title']}</b>")
        st.info(t("kernel_lab.kv.not_in_run"), icon=":material/info:")
        return
    summary = kv_quant.time_summary(run.document, words)
    drawn = kv_quant.time_figure(run.document, run.provenance, theme(), "", words)
    figure(drawn, "kernel_lab_kv_time", summary)
    st.markdown(summary)
    with st.expander(t("kernel_lab.as_table")):
        table(kv_quant.time_table(run.document, words), "kernel_lab_kv_time_table")


def _capacity() -> None:
    words = figure_words()
    summary = kv_quant.capacity_summary(words)
    figure(kv_quant.capacity_figure(theme(), words), "kernel_lab_kv_capacity", summary)
    st.markdown(summary)
    st.caption(t("kernel_lab.kv.capacity_note"))
    with st.expander(t("kernel_lab.as_table")):
        table(kv_quant.capacity_table(words), "kernel_lab_kv_capacity_table")


def _errors(output: str) -> None:
    """Errors and histogram of the bundled model's own cache."""
    found, words = json.loads(output), figure_words()
    left, right = st.columns(2, gap="small")
    with left:
        summary = kv_error.error_summary(found, words)
        figure(kv_error.error_figure(found, theme(), words), "kernel_lab_kv_error", summary)
        st.markdown(kv_error.error_verdict(found, words))
        with st.expander(t("kernel_lab.as_table")):
            table(kv_error.error_table(found, words), "kernel_lab_kv_error_table")
    with right:
        summary = kv_error.keys_summary(found, words)
        figure(kv_error.keys_figure(found, theme(), words), "kernel_lab_kv_keys", summary)
        st.markdown(summary)
        with st.expander(t("kernel_lab.as_table")):
            table(kv_error.keys_table(found, words), "kernel_lab_kv_keys_table", 320)
    st.caption(t("kernel_lab.kv.error_note", tokens=found["tokens"]))
