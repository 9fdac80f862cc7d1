"""Block size against waste and against the time of a step: what small blocks save, and what they cost."""

from collections.abc import Mapping

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from lessons.figures.style import BADGE_WORDS, INKS, Picture, Provenance, Theme, dress

WORDS = BADGE_WORDS | {
    "title": "What a block size costs",
    "size": "tokens in a block",
    "waste": "empty slots",
    "measured": "counted in the run",
    "theory": "(block - 1) / 2",
    "time": "step, ms",
    "ms": "decode step, measured",
    "sentence": "Empty slots of a request: {waste}. A decode step takes {low:.2f} to {high:.2f} ms.",
    "at": "{waste:.1f} at {size}",
    "heads": "block size|empty slots of a request|(block - 1) / 2|share of its slots %|decode step ms",
}


def waste_figure(
    data: dict,
    provenance: Provenance = "Measured",
    theme: Theme = "light",
    source: str = "",
    words: Mapping[str, str] = WORDS,
) -> go.Figure:
    """Two plots on one axis. ``data["entries"]``: ``block_size``, ``waste``, ``held``, ``ms_per_step``, ``laps_ms``."""
    entries, ink = data["entries"], INKS[theme]
    sizes = [entry["block_size"] for entry in entries]
    figure = make_subplots(rows=2, cols=1, shared_xaxes=True, vertical_spacing=0.08, row_heights=[0.6, 0.4])
    line = {"color": "#E69F00", "dash": "dash", "width": 2}
    half = [(size - 1) / 2 for size in sizes]
    figure.add_trace(go.Scatter(x=sizes, y=half, mode="lines", name=words["theory"], line=line), row=1, col=1)
    dots = {"mode": "markers", "marker": {"color": "#0072B2", "size": 11, "symbol": "circle"}}
    waste = [entry["waste"] for entry in entries]
    figure.add_trace(go.Scatter(x=sizes, y=waste, name=words["measured"], **dots), row=1, col=1)
    marker = {"color": "#CC79A7", "size": 10, "symbol": "diamond"}
    times = [entry["ms_per_step"] for entry in entries]
    spread = {"type": "data", "array": [max(entry["laps_ms"]) - entry["ms_per_step"] for entry in entries]}
    error = spread | {"arrayminus": [0.0] * len(times), "color": ink.dim}
    trace = go.Scatter(x=sizes, y=times, mode="lines+markers", name=words["ms"], marker=marker, error_y=error)
    figure.add_trace(trace.update(line={"color": "#CC79A7", "width": 1.2}), row=2, col=1)
    figure.update_xaxes(type="log", tickvals=sizes, gridcolor=ink.line, zeroline=False)
    figure.update_xaxes(title=words["size"], row=2, col=1)
    figure.update_yaxes(gridcolor=ink.line, zeroline=False, rangemode="tozero")
    figure.update_yaxes(title=words["waste"], row=1, col=1)
    figure.update_yaxes(title=words["time"], row=2, col=1)
    dress(figure, words["title"], provenance, theme, source, words)
    figure.update_layout(height=450, margin={"l": 74, "r": 24, "t": 84, "b": 96})
    return figure.update_layout(legend={"y": -0.2, "yanchor": "top"})


def waste_summary(data: dict, words: Mapping[str, str] = WORDS) -> str:
    """Waste of the smallest and the largest block, and the range of step times."""
    entries, times = data["entries"], [entry["ms_per_step"] for entry in data["entries"]]
    ends = (words["at"].format(waste=each["waste"], size=each["block_size"]) for each in (entries[0], entries[-1]))
    return words["sentence"].format(waste=", ".join(ends), low=min(times), high=max(times))


def waste_table(data: dict, words: Mapping[str, str] = WORDS) -> dict[str, list]:
    """One line for each block size."""
    lines = [
        [
            entry["block_size"],
            round(entry["waste"], 1),
            (entry["block_size"] - 1) / 2,
            round(100 * entry["waste"] / entry["held"], 1),
            round(entry["ms_per_step"], 3),
        ]
        for entry in data["entries"]
    ]
    return {head: list(column) for head, column in zip(words["heads"].split("|"), zip(*lines))}


BLOCK_WASTE = Picture("block_waste", waste_figure, waste_summary, waste_table, WORDS)
