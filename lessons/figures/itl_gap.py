"""The waits between the tokens of one request, in a run that preempted it and in one with room for all."""

import math
from collections.abc import Mapping

import plotly.graph_objects as go

from lessons.figures.style import BADGE_WORDS, INKS, Picture, Provenance, Theme, dress

_SERIES = {"pressed": ("#D55E00", "circle"), "roomy": ("#0072B2", "diamond-open")}
WORDS = BADGE_WORDS | {
    "title": "What request {name} saw",
    "place": "token of the answer",
    "gap": "ms since the token before",
    "pressed": "under pressure",
    "roomy": "with room for all",
    "longest": "{ms:,.0f} ms: preempted, waited, computed again",
    "sentence": "Longest wait of {name} between two tokens: {pressed:,.1f} ms under pressure, "
    "{roomy:,.1f} ms with room.",
    "heads": "token|ms, under pressure|ms, with room",
}


def gap_figure(
    data: dict,
    provenance: Provenance = "Measured",
    theme: Theme = "light",
    source: str = "",
    words: Mapping[str, str] = WORDS,
) -> go.Figure:
    """Milliseconds on a log axis. ``data``: ``name``, ``pressed`` and ``roomy``, the gaps in token order."""
    figure, ink = go.Figure(), INKS[theme]
    for name, (color, symbol) in _SERIES.items():
        gaps = data[name]
        marker = {"color": color, "symbol": symbol, "size": 8}
        line = {"color": color, "width": 0.8}
        places = list(range(2, len(gaps) + 2))
        figure.add_trace(go.Scatter(x=places, y=gaps, mode="lines+markers", name=words[name], marker=marker, line=line))
    longest = max(data["pressed"])
    place = data["pressed"].index(longest) + 2
    left = place > len(data["pressed"]) / 2
    figure.add_annotation(
        x=place,
        y=math.log10(longest),
        text=words["longest"].format(ms=longest),
        showarrow=False,
        xanchor="right" if left else "left",
        xshift=-12 if left else 12,
    )
    figure.update_xaxes(title=words["place"], gridcolor=ink.line, zeroline=False)
    figure.update_yaxes(title=words["gap"], type="log", dtick=1, gridcolor=ink.line, zeroline=False)
    dress(figure, words["title"].format(name=data["name"]), provenance, theme, source, words)
    return figure.update_layout(height=340, margin={"l": 74, "r": 24, "t": 92, "b": 50})


def gap_summary(data: dict, words: Mapping[str, str] = WORDS) -> str:
    """The longest wait in both runs."""
    return words["sentence"].format(name=data["name"], pressed=max(data["pressed"]), roomy=max(data["roomy"]))


def gap_table(data: dict, words: Mapping[str, str] = WORDS) -> dict[str, list]:
    """One line for each token behind the first."""
    count = max(len(data["pressed"]), len(data["roomy"]))
    columns = [list(range(2, count + 2)), *(_filled(data[name], count) for name in _SERIES)]
    return dict(zip(words["heads"].split("|"), columns, strict=True))


ITL_GAP = Picture("itl_gap", gap_figure, gap_summary, gap_table, WORDS)


def _filled(gaps: list[float], count: int) -> list[float | None]:
    return [round(gap, 2) for gap in gaps] + [None] * (count - len(gaps))
