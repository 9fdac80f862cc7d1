"""A decode step against its context, one straight line for each KV dtype, and where two of them cross."""

from collections.abc import Mapping

import plotly.graph_objects as go

from lessons.figures.capacity import KV_LOOKS
from lessons.figures.style import BADGE_WORDS, INKS, Picture, Provenance, Theme, dress

REACH = 2.5  # the axis goes on to N*, if it is no further than this many runs
WORDS = BADGE_WORDS | {
    "title": "A decode step against its context",
    "tokens": "tokens of context, all rows together",
    "time": "milliseconds",
    "weigh": "N*: KV weighs as much as the weights",
    "even": "from here int8 is 5 % faster",
    "sentence": "{name}: {base:.3f} ms + {slope:.2f} ns for each token of context.",
    "mark": "KV weighs as much as the weights at {weigh:,.0f} tokens.",
    "heads": "KV dtype|tokens|measured ms|fitted ms|floor ms",
}


def kv_lines_figure(
    data: dict,
    provenance: Provenance = "Measured",
    theme: Theme = "light",
    source: str = "",
    words: Mapping[str, str] = WORDS,
) -> go.Figure:
    """Dots and their lines.

    Args:
        data: ``lines`` of ``engine.workload.kv_sweep``, ``weigh`` (tokens, N*) and ``even`` (tokens, or None).
    """
    figure, ink = go.Figure(), INKS[theme]
    for name, line in data["lines"].items():
        color, symbol, dash = KV_LOOKS[name]
        marker = {"color": color, "symbol": symbol, "size": 10}
        figure.add_trace(
            go.Scatter(x=line["tokens"], y=line["ms"], mode="markers", name=name, marker=marker, legendgroup=name)
        )
        ends = [0, max(line["tokens"])]
        pen = {"color": color, "dash": dash, "width": 2}
        fitted = [_fitted(line, tokens) for tokens in ends]
        figure.add_trace(go.Scatter(x=ends, y=fitted, mode="lines", line=pen, legendgroup=name, showlegend=False))
    last = max(max(line["tokens"]) for line in data["lines"].values())
    seen = data["weigh"] if last < data["weigh"] < REACH * last else last
    for place, (name, at) in enumerate((("weigh", data["weigh"]), ("even", data["even"]))):
        if at is not None and 0 < at <= seen:
            _mark(figure, at, words[name], place, ink.dim, at > seen / 2)
    figure.update_xaxes(title=words["tokens"], range=[0, 1.05 * seen], gridcolor=ink.line, zeroline=False)
    figure.update_yaxes(title=words["time"], rangemode="tozero", gridcolor=ink.line, zeroline=False)
    dress(figure, words["title"], provenance, theme, source, words)
    return figure.update_layout(height=400, margin={"l": 64, "r": 24, "t": 96, "b": 52})


def _mark(figure: go.Figure, at: float, text: str, place: int, color: str, to_left: bool) -> None:
    line = {"color": color, "dash": ("dash", "dot")[place], "width": 1.2}
    figure.add_vline(at, line=line)
    note = {"text": text, "font": {"size": 11, "color": color}, "showarrow": False, "yref": "paper"}
    anchor = {"xanchor": "right", "xshift": -4} if to_left else {"xanchor": "left", "xshift": 4}
    figure.add_annotation(x=at, y=0.03 + 0.07 * place, **note, **anchor)


def kv_lines_summary(data: dict, words: Mapping[str, str] = WORDS) -> str:
    """The two coefficients of each line."""
    said = [
        words["sentence"].format(name=name, base=line["base_ms"], slope=1e6 * line["per_token_ms"])
        for name, line in data["lines"].items()
    ]
    return " ".join([*said, words["mark"].format(weigh=data["weigh"])])


def kv_lines_table(data: dict, words: Mapping[str, str] = WORDS) -> dict[str, list]:
    """One line for each dot."""
    rows = [
        (name, round(tokens), round(ms, 3), round(_fitted(line, tokens), 3), round(floor, 3))
        for name, line in data["lines"].items()
        for tokens, ms, floor in zip(line["tokens"], line["ms"], line["floor_ms"])
    ]
    return dict(zip(words["heads"].split("|"), map(list, zip(*rows)), strict=True))


KV_LINES = Picture("kv_lines", kv_lines_figure, kv_lines_summary, kv_lines_table, WORDS)


def _fitted(line: dict, tokens: float) -> float:
    return line["base_ms"] + line["per_token_ms"] * tokens
