"""Latency of every request under each scheduler: one dot a request, the median as a line, p90 as a tick."""

import plotly.graph_objects as go

from engine.workload.items import quantiles
from lessons.figures.style import INKS, SCHEDULERS, Provenance, Theme, dress

_WORDS = {"e2el_ms": "arrival to last token", "ttft_ms": "arrival to first token"}


def latency_strip(
    results: dict,
    metric: str = "e2el_ms",
    provenance: Provenance = "Measured",
    theme: Theme = "light",
    source: str = "",
) -> go.Figure:
    """Dots of ``metric`` ("e2el_ms" or "ttft_ms") from the ``requests`` lists of each scheduler, in seconds."""
    figure, ink = go.Figure(), INKS[theme]
    for position, (_, values) in enumerate(_values(results, metric)):
        ranks = quantiles(values)
        _add_dots(figure, position, values, "#0072B2" if theme == "light" else "#56B4E9")
        _add_rank(figure, position, ranks["p50"], "#D55E00", f"median {ranks['p50']:.2f} s", 3.0)
        _add_rank(figure, position, ranks["p90"], ink.text, f"p90 {ranks['p90']:.2f} s", 1.5)
    names = [SCHEDULERS[name][0] for name, _ in _values(results, metric)]
    figure.update_yaxes(
        tickvals=list(range(len(names))), ticktext=names, autorange="reversed", showgrid=False, zeroline=False
    )
    figure.update_xaxes(title={"text": f"seconds, {_WORDS[metric]}", "font": {"color": ink.dim}}, rangemode="tozero")
    figure.update_xaxes(gridcolor=ink.line, zeroline=False)
    dress(figure, "Latency of each request", provenance, theme, source)
    figure.update_layout(height=70 * len(names) + 130, showlegend=False)
    return figure


def latency_summary(results: dict, metric: str = "e2el_ms") -> str:
    """Median and p90 of each scheduler in words."""
    parts = []
    for name, values in _values(results, metric):
        ranks = quantiles(values)
        parts.append(f"{SCHEDULERS[name][0]}: median {ranks['p50']:.2f} s, p90 {ranks['p90']:.2f} s.")
    return f"{_WORDS[metric].capitalize()}. " + " ".join(parts)


def latency_table(results: dict, metric: str = "e2el_ms") -> list[dict]:
    """Quantiles of each scheduler, seconds."""
    return [
        {"scheduler": SCHEDULERS[name][0]} | {key: round(value, 3) for key, value in quantiles(values).items()}
        for name, values in _values(results, metric)
    ]


def _values(results: dict, metric: str) -> list[tuple[str, list[float]]]:
    runs = results["schedulers"]
    names = [name for name in SCHEDULERS if name in runs]
    return [(name, [request[metric] / 1e3 for request in runs[name]["requests"]]) for name in names]


def _add_dots(figure: go.Figure, position: int, values: list[float], color: str) -> None:
    # A golden-ratio sequence spreads the dots evenly without randomness, so a figure never jitters between frames.
    spread = [position + 0.5 * ((index * 0.618034) % 1 - 0.5) for index in range(len(values))]
    marker = {"size": 5.5, "color": color, "opacity": 0.6}
    hover = "request %{customdata}: %{x:.3f} s<extra></extra>"
    dots = go.Scatter(x=values, y=spread, mode="markers", marker=marker, customdata=list(range(len(values))))
    figure.add_trace(dots.update(hovertemplate=hover))


def _add_rank(figure: go.Figure, position: int, value: float, color: str, hover: str, width: float) -> None:
    tall = 0.36 if width > 2 else 0.24
    line = {"color": color, "width": width}
    rank = go.Scatter(x=[value, value], y=[position - tall, position + tall], mode="lines", line=line)
    figure.add_trace(rank.update(hovertemplate=hover + "<extra></extra>"))
