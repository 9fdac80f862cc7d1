"""The two sections that draw a run: the roofline, and the fusion ledger."""

import streamlit as st

from engine.workload.fusion import CONTEXT, ROWS, fusions, measured, share
from engine.workload.kernel_ledger import ceilings, of_references, unplaced
from lessons.figures.fusion import fusion_figure, fusion_summary, fusion_table
from lessons.figures.roofline import quantity, roofline_figure, roofline_summary, roofline_table, size_figure
from pages.parts.badge import badge
from pages.parts.kernel_lab import calibration, measure
from pages.parts.kernel_lab.runs import Run
from pages.parts.kernel_lab.show import figure, figure_words, table, theme
from pages.parts.words import t


def roofline() -> None:
    """Three roofs, a mark for each kernel and shape, hollow marks for its peers; below, this machine alone."""
    run = measure.choose(measure.KERNELS)
    if run is None:
        st.markdown(t("kernel_lab.roof_empty"))
    else:
        _under_roofs(run)
    calibration.draw()


def _under_roofs(run: Run) -> None:
    words, document = figure_words(), run.document
    _say_references(run)
    _ceilings(run)
    summary = roofline_summary(document, words)
    left, right = st.columns([3, 2], gap="small")
    drawn = document, run.provenance, theme(), "", words
    with left, st.container(border=True):
        figure(roofline_figure(*drawn), "kernel_lab_roofline", summary)
    with right, st.container(border=True):
        figure(size_figure(*drawn), "kernel_lab_size", summary)
    st.markdown(summary)
    st.caption(t("kernel_lab.roof_note"))
    if missing := unplaced(document):
        st.caption(t("kernel_lab.unplaced", names=", ".join(missing)))
    table(roofline_table(document, words), "kernel_lab_roof_table", 320)


def _say_references(run: Run | None) -> None:
    """A run without a GPU has no Triton kernel in it."""
    if run is not None and of_references(run.document):
        st.warning(t("kernel_lab.references"), icon=":material/info:")


def _ceilings(run: Run) -> None:
    roof = ceilings(run.document)
    launch = f"{roof.launch_s * 1e6:.2f} µs" if roof.launch_s else t("kernel_lab.not_measured")
    ridge = f"{roof.flops / roof.bandwidth:,.0f} FLOP/B"
    values = {
        "bandwidth": quantity(roof.bandwidth, "B/s"),
        "compute": quantity(roof.flops, "FLOP/s"),
        "launch": launch,
        "ridge": ridge,
    }
    for column, (name, value) in zip(st.columns(len(values)), values.items()):
        column.metric(t(f"kernel_lab.ceiling.{name}"), value, help=t(f"kernel_lab.ceiling_help.{name}"))


def fusion() -> None:
    """What fusing saves: predicted by bytes, measured by the clock, and worth what share of a step."""
    run = measure.choose(measure.KERNELS)
    words = figure_words()
    document = run.document if run else None
    _say_references(run)
    summary = fusion_summary(document, words)
    left, right = st.columns([3, 2], gap="small")
    with left, st.container(border=True):
        provenance = run.provenance if run else "Computed"
        figure(fusion_figure(document, provenance, theme(), "", words), "kernel_lab_fusion", summary)
    with right:
        for each in fusions():
            with st.container(border=True):
                _card(each.kernel, each.predicted, run)
    st.markdown(summary)
    st.caption(t("kernel_lab.fusion_note", rows=ROWS, context=f"{CONTEXT:,}"))
    table(fusion_table(document, words), "kernel_lab_fusion_table")


def _card(kernel: str, predicted: float, run: Run | None) -> None:
    """One fusion: predicted and measured side by side, and its share of a step."""
    st.html(f"<b>{t(f'kernel_lab.fusion.{kernel}')}</b>")
    first, second = st.columns([2, 3])
    with first:
        badge("Computed", t("kernel_lab.by_bytes", x=f"{predicted:.2f}"))
    ratios = measured(run.document, kernel) if run else {}
    with second:
        if ratios:
            shown = " · ".join(f"{ratio:.2f}x" for ratio in ratios.values())
            badge(run.provenance, t("kernel_lab.by_clock", x=shown))
        else:
            st.caption(t("kernel_lab.no_peer"))
    known = share(run.document, kernel) if run else None
    if known is None:
        st.caption(t("kernel_lab.share_unknown", rows=ROWS))
        return
    percent, slower = f"{100 * known.of_layer:.1f}", f"{100 * (known.slower_without - 1):.1f}"
    st.caption(t("kernel_lab.share", percent=percent, rows=ROWS, slower=slower))
