"""What this machine can do, measured on request: bandwidth, matmul peak by format, what a launch costs; and its age."""

import streamlit as st

from lessons.figures.roofline import quantity
from pages.parts.kernel_lab import measure
from pages.parts.kernel_lab.runs import Run
from pages.parts.kernel_lab.show import table
from pages.parts.words import t


def draw() -> None:
    """The block. Without a run it is only the bar with the button."""
    with st.container(border=True):
        st.html(f"<b>{t('kernel_lab.machine.title')}</b>")
        run = measure.choose(measure.MACHINE)
        if run is not None:
            _numbers(run)


def _numbers(run: Run) -> None:
    found = run.document["results"]
    values = {t(f"kernel_lab.machine.{name}"): quantity(found[f"{name}_bandwidth"], "B/s") for name in ("read", "copy")}
    values |= {
        t("kernel_lab.machine.matmul", dtype=dtype): quantity(rate, "FLOP/s")
        for dtype, rate in found["matmul_flops"].items()
    }
    values[t("kernel_lab.machine.eager")] = f"{found['launch_eager_s'] * 1e6:.2f} µs"
    graph = found["launch_graph_s"]
    values[t("kernel_lab.machine.graph")] = f"{graph * 1e6:.2f} µs" if graph else t("kernel_lab.not_measured")
    for column, (name, value) in zip(st.columns(len(values)), values.items()):
        column.metric(name, value)
    with st.expander(t("kernel_lab.as_table")):
        heads = t("kernel_lab.machine.what"), t("kernel_lab.machine.value")
        table(dict(zip(heads, (list(values), list(values.values())))), "kernel_lab_machine_table")
