"""The fusion ledger as a figure: every tensor that is read or written is a piece of a bar, fused against separate."""

from collections.abc import Mapping

import plotly.graph_objects as go

from engine.workload.fusion import SHARED, Fusion, Move, fusions, measured, share, total
from lessons.figures.style import INKS, Fill, Picture, Provenance, Theme, dress

FILLS = {"read": Fill("read", "#0072B2"), "written": Fill("written", "#D55E00", "/")}
DARK = {"read": Fill("read", "#56B4E9"), "written": Fill("written", "#F0803C", "/")}
ON_FILL = {  # the colour of a tensor's name
    "read": {"light": "#ffffff", "dark": "#000000"},
    "written": {theme: ink.text for theme, ink in INKS.items()},
}
SHORT = {"residual": "resid.", "K-cache": "K", "V-cache": "V"}  # what fits into a piece of a bar
WORDS = {
    "fusion_title": "Bytes moved, the fused kernel as 1",
    "read": "read",
    "written": "written",
    "fused": "fused",
    "separate": "separate",
    "times": "times the bytes of the fused kernel",
    "measured": "measured: time of PyTorch eager over ours",
    "fusion_sentence": "{kernel}: {predicted}x by bytes; measured {measured}.",
    "measured_none": "not in this run",
    "fusion_heads": "kernel|shape|predicted ratio|measured ratio|share of a layer %|layer without it|separate|fused",
}


def fusion_figure(
    run: Mapping | None,
    provenance: Provenance = "Measured",
    theme: Theme = "light",
    source: str = "",
    words: Mapping[str, str] = WORDS,
) -> go.Figure:
    """Two bars for each fusion, as long as their bytes; diamonds stand at the measured ratio of each shape of ``run``.

    A ratio beyond the axis stands at its end as a triangle, with its value.

    Bars are Computed; the badge is that of the diamonds, and Computed when there are none.
    """
    figure = go.Figure()
    seen: set[str] = set()
    for fusion in fusions():
        unit = total(fusion.fused)
        for kind in ("separate", "fused"):
            _add_bar(figure, _label(fusion, kind, words), getattr(fusion, kind), unit, theme, words, seen)
    if run is not None:
        _add_measured(figure, run, INKS[theme].text, words)
    figure.add_vline(1, line={"color": INKS[theme].dim, "width": 1, "dash": "dot"})
    figure.update_yaxes(autorange="reversed", fixedrange=True, automargin=True)
    axis = {"text": words["times"], "font": {"color": INKS[theme].dim, "size": 12}}
    figure.update_xaxes(
        title=axis, gridcolor=INKS[theme].line, zeroline=False, range=[0, _widest() * 1.02], ticksuffix="x"
    )
    shown: Provenance = provenance if any(trace.type == "scatter" for trace in figure.data) else "Computed"
    dress(figure, words["fusion_title"], shown, theme, source)
    figure.layout.annotations[-1].text = words.get(shown, shown) + (f": {source}" if source else "")
    return figure.update_layout(
        barmode="stack",
        bargap=0.3,
        height=420,
        margin={"l": 12, "r": 16, "t": 84, "b": 48},
        legend={"traceorder": "normal"},
    )


def fusion_summary(run: Mapping | None, words: Mapping[str, str] = WORDS) -> str:
    """The figure in words: one sentence for each fusion."""
    return " ".join(_sentence(fusion, run, words) for fusion in fusions())


def fusion_table(run: Mapping | None, words: Mapping[str, str] = WORDS) -> dict[str, list]:
    """Column -> values; one line for each fusion and measured shape, or for each fusion without a run."""
    lines = [line for fusion in fusions() for line in _lines(fusion, run)]
    return {head: [line[at] for line in lines] for at, head in enumerate(words["fusion_heads"].split("|"))}


def tensors(moves: tuple[Move, ...]) -> str:
    """``"add: read x, residual, write residual; ..."`` with arrows for the directions."""
    kernels: dict[str, list[str]] = {}
    for move in moves:
        kernels.setdefault(move.kernel, []).append(("→" if move.written else "←") + move.tensor)
    return "; ".join(f"{kernel}: {' '.join(parts)}" for kernel, parts in kernels.items())


def _lines(fusion: Fusion, run: Mapping | None) -> list[list]:
    tail = [tensors(fusion.separate), tensors(fusion.fused)]
    predicted = round(fusion.predicted, 2)
    ratios = measured(run, fusion.kernel) if run is not None else {}
    known = share(run, fusion.kernel) if run is not None else None
    lines = []
    for shape, ratio in ratios.items():
        amdahl = [None, None]
        if known and shape == SHARED[fusion.kernel][0]:
            amdahl = [round(100 * known.of_layer, 1), f"{known.slower_without:.3f}x"]
        lines.append([fusion.kernel, shape, predicted, round(ratio, 2), *amdahl, *tail])
    return lines or [[fusion.kernel, None, predicted, None, None, None, *tail]]


def _sentence(fusion: Fusion, run: Mapping | None, words: Mapping[str, str]) -> str:
    ratios = measured(run, fusion.kernel) if run is not None else {}
    seen = ", ".join(f"{ratio:.2f}x ({shape})" for shape, ratio in ratios.items()) or words["measured_none"]
    predicted = f"{fusion.predicted:.2f}"
    return words["fusion_sentence"].format(kernel=fusion.kernel, predicted=predicted, measured=seen)


def _label(fusion: Fusion, kind: str, words: Mapping[str, str]) -> str:
    return f"<b>{fusion.kernel}</b>  {words[kind]}" if kind == "fused" else f"{fusion.kernel}  {words[kind]}"


def _add_bar(
    figure: go.Figure, label: str, moves: tuple[Move, ...], unit: float, theme: Theme, words: Mapping, seen: set[str]
) -> None:
    fills = FILLS if theme == "light" else DARK
    for move in moves:
        kind = "written" if move.written else "read"
        marker = fills[kind].marker()
        if "pattern" in marker:  # the name of the tensor is read through it
            marker["pattern"] |= {"fgopacity": 0.4}
        marker["line"] = {"width": 1.5, "color": "rgba(127,127,127,0.9)"}
        bar = go.Bar(
            orientation="h",
            y=[label],
            x=[move.size / unit],
            marker=marker,
            name=words[kind],
            legendgroup=kind,
            showlegend=kind not in seen,
            text=SHORT.get(move.tensor, move.tensor),
            textfont={"color": ON_FILL[kind][theme], "size": 12},
            constraintext="none",
            textposition="inside",
            insidetextanchor="middle",
            textangle=0,
            hovertemplate=f"{move.kernel}: {move.tensor}, {words[kind]}<extra></extra>",
        )
        figure.add_trace(bar)
        seen.add(kind)


def _add_measured(figure: go.Figure, run: Mapping, color: str, words: Mapping[str, str]) -> None:
    points = [
        (ratio, _label(fusion, "separate", words), shape)
        for fusion in fusions()
        for shape, ratio in measured(run, fusion.kernel).items()
    ]
    if not points:
        return
    x, y, shapes = zip(*points)
    limit = _widest()
    beyond = [ratio > limit for ratio in x]
    symbols = ["triangle-right-open" if far else "diamond-open" for far in beyond]
    marker = {"symbol": symbols, "size": 12, "color": color, "line": {"width": 2}}
    hover = [f"{shape}: {ratio:.2f}x" for shape, ratio in zip(shapes, x)]
    trace = go.Scatter(x=[min(ratio, limit) for ratio in x], y=y, mode="markers", marker=marker, name=words["measured"])
    figure.add_trace(trace.update(text=hover, hovertemplate="%{text}<extra></extra>"))
    for label in dict.fromkeys(each for each, far in zip(y, beyond) if far):
        values = ", ".join(f"{ratio:.1f}x" for ratio, each, far in zip(x, y, beyond) if far and each == label)
        figure.add_annotation(x=limit, y=label, text=values, xshift=-12, xanchor="right", showarrow=False)


def _widest() -> float:
    """Where the axis ends: beyond the longest bar by the width of the values that stand there."""
    return 1.5 * max(fusion.predicted for fusion in fusions())


FUSION = Picture("fusion", fusion_figure, fusion_summary, fusion_table, WORDS)
