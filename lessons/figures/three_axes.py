"""The verdict on a KV dtype: capacity, speed and error beside each other, never as one number."""

from collections.abc import Mapping

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from lessons.figures.capacity import KV_LOOKS
from lessons.figures.style import BADGE_WORDS, INKS, Picture, Provenance, Theme, dress

AXES = ("capacity", "speed", "error")
WORDS = BADGE_WORDS | {
    "title": "Three axes, three answers",
    "capacity": "capacity",
    "speed": "speed",
    "error": "error of K",
    "unit_capacity": "x tokens",
    "unit_speed": "x as fast",
    "unit_error": "%",
    "missing": "not measured",
    "sentence": "{name}: capacity {capacity}, speed at the longest context {speed}, error of keys {error}.",
    "heads": "KV dtype|capacity x|speed x|error of keys %|KL nats",
}
_PATTERNS = {"int8": "", "fp8": ".", "int4": "/"}


def three_axes_figure(
    data: dict,
    provenance: Provenance = "Measured",
    theme: Theme = "light",
    source: str = "",
    words: Mapping[str, str] = WORDS,
) -> go.Figure:
    """Three rows of bars; a dotted line stands where the plain cache is.

    Args:
        data: by KV dtype ``capacity``, ``speed``, ``error`` and ``kl`` (numbers, or None: not measured).
    """
    ink = INKS[theme]
    titles = [f"{words[axis]} ({words['unit_' + axis]})" for axis in AXES]
    figure = make_subplots(rows=3, cols=1, subplot_titles=titles, vertical_spacing=0.14)
    for row, axis in enumerate(AXES, 1):
        for name, facts in data.items():
            _bar(figure, row, name, facts[axis], words, ink.dim)
        top = max([facts[axis] or 0 for facts in data.values()] + [1.0 if axis != "error" else 0])
        figure.update_xaxes(range=[0, 1.25 * top], showgrid=False, zeroline=False, row=row, col=1)
        if axis != "error":
            figure.add_vline(1.0, line={"color": ink.dim, "dash": "dot", "width": 1.5}, row=row, col=1)
    figure.update_yaxes(autorange="reversed")
    for note in figure.layout.annotations[:3]:
        note.update(x=0, xanchor="left", font={"size": 13})
    dress(figure, words["title"], provenance, theme, source, words)
    return figure.update_layout(height=470, showlegend=False, margin={"l": 56, "r": 20, "t": 86, "b": 32})


def _bar(figure: go.Figure, row: int, name: str, value: float | None, words: Mapping[str, str], dim: str) -> None:
    text = words["missing"] if value is None else f"{value:.2f}"
    marker = {"color": KV_LOOKS[name][0], "pattern": {"shape": _PATTERNS.get(name, ""), "solidity": 0.35}}
    options = {"orientation": "h", "width": 0.6, "textposition": "outside", "cliponaxis": False}
    figure.add_trace(
        go.Bar(y=[name], x=[value or 0], text=[text], marker=marker, textfont={"color": dim}, **options), row, 1
    )


def three_axes_summary(data: dict, words: Mapping[str, str] = WORDS) -> str:
    """One sentence for each KV dtype."""
    return " ".join(
        words["sentence"].format(
            name=name,
            capacity=_said(facts["capacity"], "x", words),
            speed=_said(facts["speed"], "x", words),
            error=_said(facts["error"], " %", words),
        )
        for name, facts in data.items()
    )


def three_axes_table(data: dict, words: Mapping[str, str] = WORDS) -> dict[str, list]:
    """One line for each KV dtype."""
    columns = [list(data)]
    columns += [[_rounded(facts[axis]) for facts in data.values()] for axis in AXES]
    columns.append([None if facts["kl"] is None else f"{facts['kl']:.1e}" for facts in data.values()])
    return dict(zip(words["heads"].split("|"), columns, strict=True))


THREE_AXES = Picture("three_axes", three_axes_figure, three_axes_summary, three_axes_table, WORDS)


def _said(value: float | None, unit: str, words: Mapping[str, str]) -> str:
    return words["missing"] if value is None else f"{value:.2f}{unit}"


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 2)
