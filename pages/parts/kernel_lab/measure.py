"""Measuring this machine: the button, the words while it runs, and which run the page shows."""

from contextlib import AbstractContextManager

import streamlit as st

from engine.workload.kernel_source import FILES
from pages.parts.badge import badge
from pages.parts.desk import desk
from pages.parts.kernel_lab import runs
from pages.parts.kernel_lab.jobs import Job, jobs
from pages.parts.kernel_lab.runs import Run
from pages.parts.kernel_lab.show import watch
from pages.parts.page import kept, tab
from pages.parts.session import session
from pages.parts.words import t

NAME = "bench kernels"


def choose() -> Run | None:
    """The bar above the figures: source, badge, button. Returns the run to show, None when there is none."""
    own, recorded = runs.own(), runs.recorded()
    job = jobs().get(NAME)
    with st.container(horizontal=True, vertical_alignment="center", gap="medium"):
        run = _chosen(own, recorded)
        with st.container(width="stretch"):
            _say(run)
        label = t("kernel_lab.again" if own else "kernel_lab.measure", device=runs.device_name())
        busy = job is not None and job.running
        help_ = t("kernel_lab.measure_help" if runs.has_gpu() else "kernel_lab.measure_help_cpu")
        if st.button(label, key="kernel_lab_measure", type="primary", disabled=busy, help=help_):
            _start()
    watch(lambda: jobs().get(NAME), _progress)
    if job is not None and job.error and not job.stopped:
        st.error(t("kernel_lab.failed", why=job.error), icon=":material/error:")
    return run


def _chosen(own: Run | None, recorded: Run | None) -> Run | None:
    """The own run unless the reader asks for the recorded one."""
    if own is None or recorded is None:
        return own or recorded
    kept("kernel_lab_view", "own")
    labels = {"own": t("kernel_lab.view.own"), "recorded": t("kernel_lab.view.recorded")}
    picked = st.segmented_control(
        t("kernel_lab.view"),
        labels,
        key="kernel_lab_view",
        format_func=labels.get,
        required=True,
        label_visibility="collapsed",
    )
    return own if picked == "own" else recorded


def _say(run: Run | None) -> None:
    if run is None:
        st.info(t("kernel_lab.no_run"), icon=":material/info:")
        return
    badge(run.provenance, " · ".join(filter(None, (run.source, run.age if run.provenance == "Measured" else ""))))


def _start() -> None:
    """Start the bench, unless another tab drives the engine or the engine is busy."""
    if not desk().seat.take(tab()):
        st.error(t("notice.other_tab"))
        return
    if busy := session().status().busy:
        st.error(t("notice.busy", detail=busy))
        return
    device = "cuda" if runs.has_gpu() else "cpu"
    jobs().start(NAME, ("engine", "bench", "kernels", "--device", device, "--json", "-"), within=_alone, then=runs.keep)
    st.session_state.setdefault("kept", {})["kernel_lab_view"] = "own"
    st.session_state.pop("kernel_lab_view", None)
    st.rerun()


def _alone() -> AbstractContextManager:
    """The device for this work alone: a running engine stands still at a step boundary."""
    return session().driver().exclusive("the Kernel Lab measures")


def _progress(job: Job) -> None:
    """How far the bench is, by the kernel that it names."""
    family = job.words.partition(",")[0].partition(" ")[0]
    place = list(FILES).index(family) if family in FILES else 0
    words = t("kernel_lab.running", what=job.words or t("kernel_lab.starting"), s=f"{job.seconds:.0f}")
    with st.container(horizontal=True, vertical_alignment="center"):
        st.progress(min(0.98, (place + 0.3) / len(FILES)), text=words)
        if st.button(t("kernel_lab.stop"), key="kernel_lab_stop"):
            job.stop()
