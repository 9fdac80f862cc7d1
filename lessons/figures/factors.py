"""The gain of in-flight batching, factor by factor: a multiplicative waterfall, each step beside its prediction."""

import math
from collections.abc import Mapping

import plotly.graph_objects as go

from lessons.figures.style import BADGE_WORDS, FACTOR_FILLS, INKS, Picture, Provenance, Theme, dress

WORDS = (
    BADGE_WORDS
    | {f"factor_{name}": fill.label for name, fill in FACTOR_FILLS.items()}
    | {f"short_{name}": name.replace("_", " ") for name in FACTOR_FILLS}
    | {
        "title": "Why not {bound:.1f}x?",
        "title_null": "Equal lengths: nothing to gain",
        "gain": "= measured gain",
        "predicted": "predicted {x:.2f}",
        "legend": "predicted: lengths, simulated steps, fitted step time",
        "hover": "predicted: ends at %{x:.2f}",
        "null": "Equal lengths: a gain of {gain:.2f}x, that is none. No row finishes early, so no seat is wasted.",
        "sentence": "In-flight is {gain:.2f}x padded static; the lengths alone would allow {bound:.2f}x. {parts}.",
        "part": "x {value:.2f} {name} (predicted {predicted:.2f})",
        "heads": "factor|measured|predicted|off by %",
    }
)


def factor_bars(
    results: dict,
    provenance: Provenance = "Measured",
    theme: Theme = "light",
    source: str = "",
    words: Mapping[str, str] = WORDS,
) -> go.Figure:
    """Waterfall of ``results["factors"]`` on a log axis: equal ratios are equal lengths, so the bars chain exactly.

    Diamonds: where each bar would end if its factor were the predicted one.
    """
    figure, ink = go.Figure(), INKS[theme]
    for name, start, end, predicted in _chain(results):
        label, right = words[f"factor_{name}"], max(start, end, start * predicted)
        _add_bar(figure, label, start, end, FACTOR_FILLS[name].marker())
        beside = words["predicted"].format(x=predicted)
        _add_label(figure, label, right, f"<b>x {end / start:.2f}</b>", beside, ink.dim)
    _add_bar(figure, words["gain"], 1.0, results["gain"], {"color": "#0072B2"})
    _add_label(figure, words["gain"], max(1.0, results["gain"]), f"<b>{results['gain']:.2f}x</b>", "", ink.dim)
    _add_predictions(figure, results, ink.text, words)
    figure.add_vline(1, line={"color": ink.dim, "width": 1})
    figure.update_xaxes(**_axis(results), gridcolor=ink.line, zeroline=False)
    figure.update_yaxes(autorange="reversed", fixedrange=True)
    dress(figure, _title(results, words), provenance, theme, source, words)
    figure.update_layout(
        height=360, margin={"l": 236, "r": 24, "t": 84, "b": 44}, barmode="overlay", bargap=0.42, showlegend=True
    )
    return figure


def factor_summary(results: dict, words: Mapping[str, str] = WORDS) -> str:
    """The figure in words, with the null result said plainly."""
    gain, limit = results["gain"], results["bound"]
    if 0.93 <= gain <= 1.07 and limit < 1.07:
        return words["null"].format(gain=gain)
    predicted = results["predicted_factors"]
    parts = ", ".join(
        words["part"].format(value=value, name=words[f"short_{name}"], predicted=predicted[name])
        for name, value in results["factors"].items()
    )
    return words["sentence"].format(gain=gain, bound=limit, parts=parts)


def factor_table(results: dict, words: Mapping[str, str] = WORDS) -> dict[str, list]:
    """Columns with one line for each factor: measured, predicted, and their difference in percent."""
    lines = [
        [words[f"short_{name}"], round(value, 3), round(predicted, 3), round(100 * (value / predicted - 1), 1)]
        for (name, value), predicted in zip(results["factors"].items(), results["predicted_factors"].values())
    ]
    return {head: list(column) for head, column in zip(words["heads"].split("|"), zip(*lines))}


FACTORS = Picture("factors", factor_bars, factor_summary, factor_table, WORDS)


def _title(results: dict, words: Mapping[str, str]) -> str:
    return words["title_null"] if results["bound"] < 1.07 else words["title"].format(bound=results["bound"])


def _chain(results: dict) -> list[tuple[str, float, float, float]]:
    """(factor, product before, product behind, predicted factor) in the order of the identity."""
    rows, product = [], 1.0
    for name, value in results["factors"].items():
        rows.append((name, product, product * value, results["predicted_factors"][name]))
        product *= value
    return rows


def _add_bar(figure: go.Figure, label: str, start: float, end: float, marker: dict) -> None:
    low, high = min(start, end), max(start, end)
    hover = f"{label}: {end / start:.3f}x<extra></extra>"
    bar = go.Bar(orientation="h", y=[label], base=[low], x=[max(high - low, 1e-6)], marker=marker)
    figure.add_trace(bar.update(hovertemplate=hover, showlegend=False))


def _add_label(figure: go.Figure, label: str, right: float, strong: str, weak: str, dim: str) -> None:
    text = f'{strong} <span style="color:{dim};font-size:11px">{weak}</span>'
    place = {"x": math.log10(right), "y": label, "xshift": 14, "xanchor": "left", "showarrow": False}
    figure.add_annotation(text=text, **place)


def _add_predictions(figure: go.Figure, results: dict, color: str, words: Mapping[str, str]) -> None:
    chain = _chain(results)
    figure.add_trace(
        go.Scatter(
            x=[start * predicted for _, start, _, predicted in chain],
            y=[words[f"factor_{name}"] for name, *_ in chain],
            mode="markers",
            name=words["legend"],
            marker={"symbol": "diamond-open", "size": 11, "color": color, "line": {"width": 2}},
            hovertemplate=f"{words['hover']}<extra></extra>",
        )
    )


def _axis(results: dict) -> dict:
    ends = [value for _, start, end, predicted in _chain(results) for value in (start, end, start * predicted)]
    low, high = min([1.0, *ends]) * 0.94, max([1.0, *ends]) * 1.45
    ticks = [value for value in (0.5, 0.75, 1, 1.25, 1.5, 2, 2.5, 3, 4, 5, 7, 10, 15, 20, 30) if low <= value <= high]
    return {
        "type": "log",
        "range": [math.log10(low), math.log10(high)],
        "tickvals": ticks,
        "ticktext": [f"{value:g}x" for value in ticks],
    }
