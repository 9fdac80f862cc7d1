"""Measuring this machine: the button, the words while it runs, and which run the page shows."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

import streamlit as st

from engine.workload.kernel_source import FILES
from engine.workload.stages import EIGHT_BIT, STAGES
from pages.parts.badge import badge
from pages.parts.desk import desk
from pages.parts.engine_words import said
from pages.parts.kernel_lab import runs
from pages.parts.kernel_lab.jobs import Job, jobs
from pages.parts.kernel_lab.runs import Run, Shelf
from pages.parts.kernel_lab.show import watch
from pages.parts.page import kept, tab
from pages.parts.session import session
from pages.parts.words import t


@dataclass(frozen=True, slots=True)
class Bench:
    """A bench that the page can run: its shelf, what is asked for with a GPU and without, and the words, in order,
    with which its progress lines begin."""

    shelf: Shelf
    gpu: tuple[str, ...]
    cpu: tuple[str, ...]
    order: tuple[str, ...]

    @property
    def job(self) -> str:
        """The name of its job."""
        return f"bench {self.shelf.name}"

    def module(self) -> tuple[str, ...]:
        """What a child process runs."""
        here = ("--device", "cuda", *self.gpu) if runs.has_gpu() else ("--device", "cpu", *self.cpu)
        return "engine", "bench", self.shelf.name, *here, "--json", "-"


SHAPE = ("--random-weights", "qwen3-0.6b")  # what a GPU is asked about
KERNELS = Bench(runs.KERNELS, (), (), ("measuring", *FILES))
STAGES_BENCH = Bench(
    runs.STAGES,
    SHAPE,
    ("--requests", "8", "--rows", "4"),
    ("loading", *(stage.name for stage in STAGES), "loading transformers", "transformers", EIGHT_BIT.name),
)
THROUGHPUT = Bench(
    runs.THROUGHPUT,
    SHAPE,
    ("--requests", "8", "--workload", "sharegpt", "--repeats", "1"),
    ("loading", "warm-up", "W1", "sharegpt", "profiling"),
)
MACHINE = Bench(runs.MACHINES, (), (), ("bandwidth", "products", "launches"))


def choose(bench: Bench) -> Run | None:
    """The bar above the figures: source, badge, button. Returns the run to show, None when there is none."""
    own, recorded = bench.shelf.own(), bench.shelf.recorded()
    job = jobs().get(bench.job)
    with st.container(horizontal=True, vertical_alignment="center", gap="medium"):
        run = _chosen(bench, own, recorded)
        with st.container(width="stretch"):
            _say(run)
        label = t("kernel_lab.again" if own else "kernel_lab.measure", device=runs.device_name())
        busy = job is not None and job.running
        place = "gpu" if runs.has_gpu() else "cpu"
        help_ = t(f"kernel_lab.measure_help.{bench.shelf.name}.{place}")
        if st.button(label, key=_key(bench, "measure"), type="primary", disabled=busy, help=help_):
            _start(bench)
    watch(lambda: jobs().get(bench.job), lambda job: _progress(bench, job))
    if job is not None and job.error and not job.stopped:
        st.error(t("kernel_lab.failed", why=job.error), icon=":material/error:")
    return run


def start(name: str, module: tuple[str, ...], then: Callable[[str], object]) -> bool:
    """Start work that needs the device for itself, unless another tab drives the engine or it is busy (said here)."""
    if not desk().seat.take(tab()):
        st.error(t("notice.other_tab"))
        return False
    if busy := session().status().busy:
        st.error(t("notice.busy", detail=said(busy)))
        return False
    jobs().start(name, module, within=_alone, then=then)
    return True


def _chosen(bench: Bench, own: Run | None, recorded: Run | None) -> Run | None:
    """The own run unless the reader asks for the recorded one."""
    if own is None or recorded is None:
        return own or recorded
    key = _key(bench, "view")
    kept(key, "own")
    labels = {"own": t("kernel_lab.view.own"), "recorded": t("kernel_lab.view.recorded")}
    picked = st.segmented_control(
        t("kernel_lab.view"),
        labels,
        key=key,
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


def _start(bench: Bench) -> None:
    if not start(bench.job, bench.module(), bench.shelf.keep):
        return
    key = _key(bench, "view")
    st.session_state.setdefault("kept", {})[key] = "own"
    st.session_state.pop(key, None)
    st.rerun()


def _alone() -> AbstractContextManager:
    """The device for this work alone: a running engine stands still at a step boundary."""
    return session().driver().exclusive("the Kernel Lab measures")


def _progress(bench: Bench, job: Job) -> None:
    """How far the bench is, by the furthest of its words that was said."""
    reached = [at for at, word in enumerate(bench.order) if any(line.startswith(word) for line in job.lines)]
    what = said(job.words) or t("kernel_lab.starting")
    share = (max(reached, default=0) + 0.3) / len(bench.order)
    with st.container(horizontal=True, vertical_alignment="center"):
        st.progress(min(0.98, share), text=t("kernel_lab.running", what=what, s=f"{job.seconds:.0f}"))
        if st.button(t("kernel_lab.stop"), key=_key(bench, "stop")):
            job.stop()


def _key(bench: Bench, what: str) -> str:
    return f"kernel_lab_{what}_{bench.shelf.name}"
