"""The published estimators of article S1 as lines, beside the corrected formula and what was measured."""

from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from lessons.audit.estimators import Lengths, fusion_by_time, published_fusion
from lessons.figures.style import INKS, Theme, dress

PUBLISHED = {"light": "#D55E00", "dark": "#F0803C"}
CORRECTED = {"light": "#0072B2", "dark": "#56B4E9"}
ROWS = (1, 2, 4, 8, 16, 32, 64, 128)
SHARES = tuple(percent / 100 for percent in range(0, 101, 5))
Point = tuple[float, float]  # x and y of something measured

WORDS = {
    "batching_title": "Gain of in-flight batching",
    "batching_x": "rows of a batch",
    "batching_y": "gain",
    "fusion_title": "Gain of fusing",
    "fusion_x": "memory-bound operations: share of the time",
    "fusion_y": "speed-up",
    "published": "published",
    "corrected": "corrected",
    "measured": "measured",
    "batching_sentence": "Published: {published}x for any rows. Corrected: {first}x with one row, {last}x with {rows}.",
    "fusion_sentence": "Published: {published}x. Corrected, by time: {low}x at a share of 10 %, {high}x at 75 %.",
    "fusion_measured": "Measured: {y}x where the operations take {x} % of a layer unfused.",
    "batching_measured": "Measured: {y}x with {x} rows.",
}


def batching_figure(
    published: float, given: Lengths, measured: Point | None, theme: Theme = "light", words: Mapping[str, str] = WORDS
) -> go.Figure:
    """Gain against the rows of a batch: the published constant, and E[longest of B] / E[length]."""
    figure = go.Figure()
    _line(figure, ROWS, [published] * len(ROWS), "published", theme, words)
    _line(figure, ROWS, [given.gain(rows) for rows in ROWS], "corrected", theme, words)
    _mark(figure, measured, theme, words)
    figure.update_xaxes(type="log", tickvals=ROWS, ticktext=[str(rows) for rows in ROWS])
    return _dressed(figure, "batching", theme, words)


def fusion_figure(
    memory_ops: int,
    compute_ops: int,
    coverage: float,
    measured: Point | None,
    theme: Theme = "light",
    words: Mapping[str, str] = WORDS,
) -> go.Figure:
    """Speed-up against the share of the time in memory-bound operations; the published one knows only their number."""
    published = published_fusion(memory_ops, compute_ops, coverage)["overall"]
    figure = go.Figure()
    _line(figure, SHARES, [published] * len(SHARES), "published", theme, words)
    _line(figure, SHARES, [fusion_by_time(share, coverage) for share in SHARES], "corrected", theme, words)
    _mark(figure, measured, theme, words)
    figure.update_xaxes(tickformat=".0%", range=[0, 1])
    return _dressed(figure, "fusion", theme, words)


def batching_summary(published: float, given: Lengths, measured: Point | None, words: Mapping[str, str] = WORDS) -> str:
    """The figure in words."""
    first, last = (f"{given.gain(rows):.2f}" for rows in (ROWS[0], ROWS[-1]))
    text = words["batching_sentence"].format(published=f"{published:.2f}", first=first, last=last, rows=ROWS[-1])
    if measured is None:
        return text
    return f"{text} {words['batching_measured'].format(x=f'{measured[0]:.0f}', y=f'{measured[1]:.2f}')}"


def fusion_summary(
    memory_ops: int, compute_ops: int, coverage: float, measured: Point | None, words: Mapping[str, str] = WORDS
) -> str:
    """The figure in words."""
    published = published_fusion(memory_ops, compute_ops, coverage)["overall"]
    low, high = (f"{fusion_by_time(share, coverage):.2f}" for share in (0.1, 0.75))
    text = words["fusion_sentence"].format(published=f"{published:.2f}", low=low, high=high)
    if measured is None:
        return text
    return f"{text} {words['fusion_measured'].format(x=f'{100 * measured[0]:.1f}', y=f'{measured[1]:.2f}')}"


def batching_table(published: float, given: Lengths, words: Mapping[str, str] = WORDS) -> dict[str, list]:
    """Column -> values, one line for each number of rows."""
    corrected = [round(given.gain(rows), 3) for rows in ROWS]
    return {
        words["batching_x"]: list(ROWS),
        words["published"]: [round(published, 3)] * len(ROWS),
        words["corrected"]: corrected,
    }


def fusion_table(
    memory_ops: int, compute_ops: int, coverage: float, words: Mapping[str, str] = WORDS
) -> dict[str, list]:
    """Column -> values, one line for each share."""
    published = published_fusion(memory_ops, compute_ops, coverage)["overall"]
    return {
        words["fusion_x"]: [f"{share:.0%}" for share in SHARES],
        words["published"]: [round(published, 3)] * len(SHARES),
        words["corrected"]: [round(fusion_by_time(share, coverage), 3) for share in SHARES],
    }


def _line(
    figure: go.Figure, x: Sequence[float], y: Sequence[float], name: str, theme: Theme, words: Mapping[str, str]
) -> None:
    color = {"published": PUBLISHED, "corrected": CORRECTED}[name][theme]
    line = {"color": color, "width": 3, "dash": "dash" if name == "published" else "solid"}
    figure.add_scatter(x=list(x), y=list(y), mode="lines", line=line, name=words[name])


def _mark(figure: go.Figure, point: Point | None, theme: Theme, words: Mapping[str, str]) -> None:
    if point is None:
        return
    marker = {"symbol": "diamond", "size": 14, "color": INKS[theme].text}
    x, y = point
    figure.add_scatter(
        x=[x],
        y=[y],
        mode="markers+text",
        text=[f"{y:.2f}x"],
        textposition="top center",
        marker=marker,
        name=words["measured"],
    )


def _dressed(figure: go.Figure, name: str, theme: Theme, words: Mapping[str, str]) -> go.Figure:
    """The common look. Lines are Computed; what was measured carries its badge on the page."""
    ink = INKS[theme]
    for axis, key in ((figure.update_xaxes, "x"), (figure.update_yaxes, "y")):
        title = {"text": words[f"{name}_{key}"], "font": {"color": ink.dim, "size": 12}}
        axis(title=title, gridcolor=ink.line, zeroline=False, fixedrange=True, automargin=True)
    figure.update_yaxes(rangemode="tozero", ticksuffix="x")
    dress(figure, words[f"{name}_title"], "Computed", theme)
    figure.layout.annotations[-1].text = words.get("Computed", "Computed")
    return figure.update_layout(height=330, margin={"l": 12, "r": 16, "t": 84, "b": 48})
