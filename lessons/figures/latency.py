"""Latency of every request under each scheduler: one dot a request, the median as a line, p90 as a tick."""

from collections.abc import Mapping

import plotly.graph_objects as go

from engine.workload.items import quantiles
from lessons.figures.style import BADGE_WORDS, INKS, SCHEDULER_WORDS, SCHEDULERS, Picture, Provenance, Theme, dress

WORDS = (
    BADGE_WORDS
    | SCHEDULER_WORDS
    | {
        "title": "Latency of each request",
        "e2el_ms": "arrival to last token",
        "ttft_ms": "arrival to first token",
        "axis": "seconds, {metric}",
        "median": "median {s:.2f} s",
        "p90": "p90 {s:.2f} s",
        "hover": "request %{customdata}: %{x:.3f} s",
        "lead": "Seconds, {metric}.",
        "sentence": "{name}: median {p50:.2f} s, p90 {p90:.2f} s.",
        "heads": "scheduler|min|p50|p90|p99|max|mean",
    }
)


def latency_strip(
    results: dict,
    metric: str = "e2el_ms",
    provenance: Provenance = "Measured",
    theme: Theme = "light",
    source: str = "",
    words: Mapping[str, str] = WORDS,
) -> go.Figure:
    """Dots of ``metric`` ("e2el_ms" or "ttft_ms") from the ``requests`` lists of each scheduler, in seconds."""
    figure, ink = go.Figure(), INKS[theme]
    for position, (_, values) in enumerate(_values(results, metric)):
        ranks = quantiles(values)
        _add_dots(figure, position, values, "#0072B2" if theme == "light" else "#56B4E9", words["hover"])
        _add_rank(figure, position, ranks["p50"], "#D55E00", words["median"].format(s=ranks["p50"]), 3.0)
        _add_rank(figure, position, ranks["p90"], ink.text, words["p90"].format(s=ranks["p90"]), 1.5)
    names = [words[name] for name, _ in _values(results, metric)]
    figure.update_yaxes(
        tickvals=list(range(len(names))), ticktext=names, autorange="reversed", showgrid=False, zeroline=False
    )
    figure.update_xaxes(
        title={"text": words["axis"].format(metric=words[metric]), "font": {"color": ink.dim}}, rangemode="tozero"
    )
    figure.update_xaxes(gridcolor=ink.line, zeroline=False)
    dress(figure, words["title"], provenance, theme, source, words)
    figure.update_layout(height=70 * len(names) + 130, showlegend=False)
    return figure


def latency_summary(results: dict, metric: str = "e2el_ms", words: Mapping[str, str] = WORDS) -> str:
    """Median and p90 of each scheduler in words."""
    parts = [words["lead"].format(metric=words[metric])]
    for name, values in _values(results, metric):
        ranks = quantiles(values)
        parts.append(words["sentence"].format(name=words[name], p50=ranks["p50"], p90=ranks["p90"]))
    return " ".join(parts)


def latency_table(results: dict, metric: str = "e2el_ms", words: Mapping[str, str] = WORDS) -> dict[str, list]:
    """Quantiles of each scheduler as columns, seconds."""
    lines = [
        [words[name], *(round(quantiles(values)[rank], 3) for rank in ("min", "p50", "p90", "p99", "max", "mean"))]
        for name, values in _values(results, metric)
    ]
    return {head: list(column) for head, column in zip(words["heads"].split("|"), zip(*lines))}


LATENCY = Picture("latency", latency_strip, latency_summary, latency_table, WORDS)


def _values(results: dict, metric: str) -> list[tuple[str, list[float]]]:
    runs = results["schedulers"]
    names = [name for name in SCHEDULERS if name in runs]
    return [(name, [request[metric] / 1e3 for request in runs[name]["requests"]]) for name in names]


def _add_dots(figure: go.Figure, position: int, values: list[float], color: str, hover: str) -> None:
    # A golden-ratio sequence spreads the dots evenly without randomness, so a figure never jitters between frames.
    spread = [position + 0.5 * ((index * 0.618034) % 1 - 0.5) for index in range(len(values))]
    marker = {"size": 5.5, "color": color, "opacity": 0.6}
    dots = go.Scatter(x=values, y=spread, mode="markers", marker=marker, customdata=list(range(len(values))))
    figure.add_trace(dots.update(hovertemplate=f"{hover}<extra></extra>"))


def _add_rank(figure: go.Figure, position: int, value: float, color: str, hover: str, width: float) -> None:
    tall = 0.36 if width > 2 else 0.24
    line = {"color": color, "width": width}
    rank = go.Scatter(x=[value, value], y=[position - tall, position + tall], mode="lines", line=line)
    figure.add_trace(rank.update(hovertemplate=hover + "<extra></extra>"))
