"""The source of a kernel with its three parts folded, and the PTX that the compiler makes of it, on request."""

import json
from importlib.util import find_spec

import streamlit as st

from engine.workload.kernel_source import FILES, PARTS, Piece, about, pieces
from pages.parts.badge import badge
from pages.parts.kernel_lab.jobs import Job, jobs
from pages.parts.kernel_lab.show import table, watch
from pages.parts.page import kept
from pages.parts.words import t

TITLES = {"reference": "reference", "kernel": "kernel_file", "launcher": "launcher"}


def draw() -> None:
    """The section."""
    kept("kernel_lab_kernel", "add_rmsnorm")
    label = t("kernel_lab.source.kernel")
    kernel = st.segmented_control(label, list(FILES), key="kernel_lab_kernel", required=True)
    left, right = st.columns([5, 2], gap="small")
    with left:
        for part in PARTS:
            _part(kernel, part, pieces(kernel)[part])
    with right, st.container(border=True):
        st.html(f"<b>{t('kernel_lab.source.about')}</b>")
        st.markdown(about(kernel).replace("``", "`"))
    _ptx(kernel)


def _part(kernel: str, part: str, found: list[Piece]) -> None:
    lines = sum(piece.last - piece.first + 1 for piece in found)
    with st.expander(t(f"kernel_lab.source.{TITLES[part]}", lines=lines), key=f"kernel_lab_{kernel}_{part}"):
        for piece in found:
            st.caption(f"kernels/{piece.file}.py:{piece.first}-{piece.last}")
            st.code(piece.code)


def _ptx(kernel: str) -> None:
    """The button, and what the compiler made. Needs no GPU."""
    if find_spec("triton") is None:
        st.info(t("kernel_lab.no_triton"), icon=":material/info:")
        return
    name = f"ptx {kernel}"
    job = jobs().get(name)
    running = job is not None and job.running
    with st.container(horizontal=True, vertical_alignment="center", gap="medium"):
        if st.button(t("kernel_lab.ptx.make"), key="kernel_lab_ptx", disabled=running):
            jobs().start(name, ("engine.workload.kernel_ptx", kernel))
            st.rerun()
        st.caption(t("kernel_lab.ptx.what"))
    watch(lambda: jobs().get(name), _progress)
    if job is not None and job.error:
        st.error(t("kernel_lab.failed", why=job.error), icon=":material/error:")
    elif job is not None and job.output is not None:
        _show(json.loads(job.output))


def _progress(job: Job) -> None:
    what = job.words or t("kernel_lab.tiles.process")
    st.markdown(t("kernel_lab.running", what=what, s=f"{job.seconds:.0f}"))


def _show(made: dict) -> None:
    facts = {"warps": made["warps"], "shared": f"{made['shared']:,}", "cubin": f"{made['cubin']:,}"}
    badge("Computed", t("kernel_lab.ptx.facts", arch=made["arch"], **facts))
    left, right = st.columns([1, 3], gap="small")
    with left:
        heads = t("kernel_lab.ptx.instruction"), t("kernel_lab.ptx.count"), t("kernel_lab.ptx.means")
        counts = made["counts"]
        meanings = [t(f"kernel_lab.ptx.{name.replace('.', '_')}") for name in counts]
        table(dict(zip(heads, (list(counts), list(counts.values()), meanings))), "kernel_lab_ptx_counts")
    with right:
        st.code(made["ptx"], language="asm", height=420)
