"""A rate against a size, one line for each series: bandwidth against bytes, products against their side."""

from collections.abc import Mapping

import plotly.graph_objects as go

from lessons.figures.style import BADGE_WORDS, INKS, Picture, Provenance, Theme, dress

_LOOKS = {
    "read": ("#0072B2", "circle"),
    "float32": ("#0072B2", "circle"),
    "float16": ("#D55E00", "square"),
    "bfloat16": ("#009E73", "diamond"),
}
WORDS = BADGE_WORDS | {
    "title_bytes": "Reading, from small to large",
    "title_side": "Square products, from small to large",
    "x_bytes": "bytes read",
    "x_side": "side of the matrices",
    "y_bytes": "GB/s",
    "y_side": "TFLOP/s",
    "read": "reading",
    "float32": "fp32",
    "float16": "fp16",
    "bfloat16": "bf16",
    "sentence": "{name}: at most {best:,.2f} {unit}, at the largest size {last:,.2f}.",
    "size": "size",
}


def rates_figure(
    data: dict,
    provenance: Provenance = "Measured",
    theme: Theme = "light",
    source: str = "",
    words: Mapping[str, str] = WORDS,
) -> go.Figure:
    """Rate against size, sizes in logarithms.

    Args:
        data: ``kind`` ("bytes" or "side") and ``series``: name -> ``[[size, rate], ...]``.
    """
    figure, ink, kind = go.Figure(), INKS[theme], data["kind"]
    for name, points in data["series"].items():
        color, symbol = _LOOKS[name]
        sizes, rates = zip(*points, strict=True)
        marker = {"color": color, "symbol": symbol, "size": 9}
        figure.add_trace(go.Scatter(x=sizes, y=rates, mode="lines+markers", name=words[name], marker=marker))
    sizes = sorted({size for points in data["series"].values() for size, _ in points})
    labels = [_size(size) if kind == "bytes" else f"{size:g}" for size in sizes]
    axis = {"tickvals": sizes, "ticktext": labels, "gridcolor": ink.line, "zeroline": False}
    figure.update_xaxes(type="log", title=words[f"x_{kind}"], **axis)
    figure.update_yaxes(title=words[f"y_{kind}"], rangemode="tozero", gridcolor=ink.line, zeroline=False)
    dress(figure, words[f"title_{kind}"], provenance, theme, source, words)
    return figure.update_layout(height=360, margin={"l": 68, "r": 24, "t": 92, "b": 56})


def rates_summary(data: dict, words: Mapping[str, str] = WORDS) -> str:
    """The best and the last rate of each series."""
    unit = words[f"y_{data['kind']}"]
    return " ".join(
        words["sentence"].format(name=words[name], best=max(rate for _, rate in points), last=points[-1][1], unit=unit)
        for name, points in data["series"].items()
    )


def rates_table(data: dict, words: Mapping[str, str] = WORDS) -> dict[str, list]:
    """One line for each size."""
    sizes = sorted({size for points in data["series"].values() for size, _ in points})
    shown = [_size(size) if data["kind"] == "bytes" else size for size in sizes]
    columns = {words["size"]: shown}
    for name, points in data["series"].items():
        known = dict(map(tuple, points))
        columns[f"{words[name]} {words['y_' + data['kind']]}"] = [
            round(known[size], 3) if size in known else None for size in sizes
        ]
    return columns


RATES = Picture("rates", rates_figure, rates_summary, rates_table, WORDS)


def _size(count: float) -> str:
    for unit in ("B", "KB", "MB"):
        if count < 1024:
            return f"{count:g} {unit}"
        count /= 1024
    return f"{count:g} GB"
