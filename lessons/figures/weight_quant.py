"""Weight quantisation: time of a product against the number of tokens, and error against the size of a group."""

import math
from collections.abc import Mapping

import plotly.graph_objects as go

from engine.workload.weight_curves import Curve, curves
from lessons.figures.charts import axes, columns, finish
from lessons.figures.style import INKS, Provenance, Theme

MARKS = {  # format: colour in light, in dark, symbol, dash
    "bf16": ("#667085", "#B6BECB", "circle", "solid"),
    "int8": ("#0072B2", "#56B4E9", "square", "dash"),
    "fp8": ("#D55E00", "#F0803C", "diamond", "dot"),
    "int4": ("#8A6D00", "#F0E442", "star", "dashdot"),
}
WORDS = {
    "wq_title": "Product {layer}: time against tokens",
    "wq_tokens": "tokens of the step (M)",
    "wq_us": "microseconds a call",
    "wq_crossing": "bf16 overtakes {form}",
    "wq_sentence": "{form}, times as fast as bf16: {ratios}.",
    "wq_at": "{ratio} at M = {tokens}",
    "wq_crosses": "16 bits overtake near M = {tokens}.",
    "wq_never": "16 bits do not overtake in this run.",
    "wq_error_title": "int4: error against inputs that share a scale",
    "wq_group": "inputs in a group",
    "wq_error": "relative error, percent",
    "wq_error_sentence": "{part}: {small} % with a scale for each {few} inputs, {large} % for each {many}.",
    "wq_error_heads": "part of a layer|group|bits a weight|error %",
    "wq_heads": "format|M|µs|bf16 µs|times as fast",
}


def weight_figure(
    run: Mapping, layer: str, provenance: Provenance, theme: Theme = "light", source: str = "", words: Mapping = WORDS
) -> go.Figure:
    """Microseconds of each format and of bf16 against tokens, both axes by powers; a line where bf16 overtakes."""
    figure, found = go.Figure(), curves(run)[layer]
    _add(figure, "bf16", found[0].tokens, found[0].dense_us, theme)
    for curve in found:
        _add(figure, curve.form, curve.tokens, curve.us, theme)
        if curve.crossing:
            _add_crossing(figure, curve, INKS[theme].dim, words)
    axes(figure, theme, words["wq_tokens"], words["wq_us"])
    counts = found[0].tokens
    figure.update_xaxes(type="log", tickvals=counts, ticktext=[str(count) for count in counts])
    figure.update_yaxes(type="log", **_ticks(found))
    return finish(figure, words["wq_title"].format(layer=layer), provenance, theme, words, source)


def weight_summary(run: Mapping, layer: str, words: Mapping = WORDS) -> str:
    """Ratios and crossing of each format in words."""
    parts = []
    for curve in curves(run)[layer]:
        pairs = zip(curve.tokens, curve.ratios, strict=True)
        ratios = ", ".join(words["wq_at"].format(ratio=f"{ratio:.2f}", tokens=count) for count, ratio in pairs)
        parts.append(words["wq_sentence"].format(form=curve.form, ratios=ratios))
        crossing = curve.crossing
        parts.append(words["wq_crosses"].format(tokens=f"{crossing:.0f}") if crossing else words["wq_never"])
    return " ".join(parts)


def weight_table(run: Mapping, layer: str, words: Mapping = WORDS) -> dict[str, list]:
    """One line for each format and number of tokens."""
    rows = [
        (curve.form, count, round(us, 2), round(dense, 2), round(dense / us, 3))
        for curve in curves(run)[layer]
        for count, us, dense in zip(curve.tokens, curve.us, curve.dense_us, strict=True)
    ]
    return columns(words["wq_heads"], rows)


def group_figure(found: Mapping, theme: Theme = "light", words: Mapping = WORDS) -> go.Figure:
    """Error of int4 weights against the size of a group, a line for each part of a layer (of ``weight_error``)."""
    figure = go.Figure()
    for (part, points), (light, dark, symbol, dash) in zip(_by_part(found).items(), MARKS.values(), strict=True):
        color = dark if theme == "dark" else light
        line, marker = {"color": color, "dash": dash}, {"symbol": symbol, "size": 10, "color": color}
        x, y = [each["group"] for each in points], [100 * each["relative_error"] for each in points]
        trace = go.Scatter(x=x, y=y, mode="lines+markers", name=part, line=line, marker=marker)
        figure.add_trace(trace.update(hovertemplate="%{x}: %{y:.2f} %<extra></extra>"))
    axes(figure, theme, words["wq_group"], words["wq_error"])
    sizes = sorted({each["group"] for each in found["errors"]})
    figure.update_xaxes(type="log", tickvals=sizes, ticktext=[str(size) for size in sizes])
    figure.update_yaxes(rangemode="tozero")
    return finish(figure, words["wq_error_title"], "Computed", theme, words, found["model"])


def group_summary(found: Mapping, words: Mapping = WORDS) -> str:
    """The smallest and the largest group of each part in words."""
    parts = []
    for part, points in _by_part(found).items():
        few, many = points[0], points[-1]
        errors = {"small": f"{100 * few['relative_error']:.1f}", "large": f"{100 * many['relative_error']:.1f}"}
        parts.append(words["wq_error_sentence"].format(part=part, few=few["group"], many=many["group"], **errors))
    return " ".join(parts)


def group_table(found: Mapping, words: Mapping = WORDS) -> dict[str, list]:
    """One line for each part and size of a group."""
    rows = [
        (each["part"], each["group"], round(each["bits"], 3), round(100 * each["relative_error"], 2))
        for each in found["errors"]
    ]
    return columns(words["wq_error_heads"], rows)


def _by_part(found: Mapping) -> dict[str, list[Mapping]]:
    parts: dict[str, list[Mapping]] = {}
    for each in found["errors"]:
        parts.setdefault(each["part"], []).append(each)
    return parts


def _add(figure: go.Figure, form: str, tokens: tuple[int, ...], us: tuple[float, ...], theme: Theme) -> None:
    light, dark, symbol, dash = MARKS[form]
    color = dark if theme == "dark" else light
    line, marker = {"color": color, "dash": dash}, {"symbol": symbol, "size": 10, "color": color}
    trace = go.Scatter(x=tokens, y=us, mode="lines+markers", name=form, line=line, marker=marker)
    figure.add_trace(trace.update(hovertemplate="M = %{x}: %{y:.1f} µs<extra></extra>"))


def _add_crossing(figure: go.Figure, curve: Curve, color: str, words: Mapping) -> None:
    """A line where bf16 overtakes. An annotation on a log axis stands at the power of ten."""
    figure.add_vline(curve.crossing, line={"color": color, "dash": "dot", "width": 1.2})
    label = {"text": words["wq_crossing"].format(form=curve.form), "font": {"color": color, "size": 12}}
    place = {"x": math.log10(curve.crossing), "y": 0.02, "yref": "paper", "xanchor": "right", "yanchor": "bottom"}
    figure.add_annotation(**label, **place, xshift=-4, showarrow=False)


def _ticks(found: list[Curve]) -> dict:
    """Plain numbers on the log axis."""
    values = [us for curve in found for us in (*curve.us, *curve.dense_us)]
    low, high = math.log10(min(values) / 1.3), math.log10(max(values) * 1.3)
    shown = [digit * 10**power for power in range(math.floor(low), math.ceil(high) + 1) for digit in (1, 2, 3, 5)]
    return {"range": [low, high], "tickvals": shown, "ticktext": [f"{value:g}" for value in shown]}
