"""Time against rows: what was measured, and the three floors under it. Where two floors cross, the line bends."""

import math
from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from lessons.figures.style import BADGE_WORDS, INKS, Picture, Provenance, Theme, dress, mark_line

_FLOORS = {"launch": ("#999999", "dot"), "bandwidth": ("#E69F00", "dash"), "compute": ("#D55E00", "solid")}
_SERIES = {"us": ("#0072B2", "circle"), "eager_us": ("#CC79A7", "diamond-open")}
WORDS = BADGE_WORDS | {
    "title": "Time of a call against its rows",
    "rows": "rows",
    "time": "microseconds",
    "us": "measured",
    "eager_us": "measured, eager",
    "launch": "floor: launch",
    "bandwidth": "floor: bytes",
    "compute": "floor: operations",
    "bend": "bend at {rows:,.0f} rows",
    "sentence": "From {first:,.0f} µs at {low} rows to {last:,.0f} µs at {high}; the floors cross at {bend:,.0f} rows.",
    "eager": "Without graphs {eager:,.0f} µs at {low} rows.",
    "heads": "rows|measured µs|eager µs|launch µs|bytes µs|operations µs",
}


def bend_figure(
    data: dict,
    provenance: Provenance = "Measured",
    theme: Theme = "light",
    source: str = "",
    words: Mapping[str, str] = WORDS,
) -> go.Figure:
    """Log-log time against rows.

    Args:
        data: ``rows``, ``us``, ``launch``, ``bandwidth``, ``compute`` (lists of one length, microseconds),
            ``eager_us`` (the same, or None) and ``bend`` (rows at which the floors of bytes and operations cross).
    """
    figure, ink = go.Figure(), INKS[theme]
    for name, (color, dash) in _FLOORS.items():
        line = {"color": color, "dash": dash, "width": 2}
        figure.add_trace(go.Scatter(x=data["rows"], y=data[name], mode="lines", name=words[name], line=line))
    for name, (color, symbol) in _SERIES.items():
        if data.get(name):
            marker = {"color": color, "symbol": symbol, "size": 10}
            line = {"color": color, "width": 1.2}
            trace = go.Scatter(
                x=data["rows"], y=data[name], mode="lines+markers", name=words[name], marker=marker, line=line
            )
            figure.add_trace(trace)
    if min(data["rows"]) < data["bend"] < max(data["rows"]):
        figure.add_vline(data["bend"], line={"color": ink.dim, "dash": "dash", "width": 1})
        mark_line(figure, data["bend"], words["bend"].format(rows=data["bend"]), ink.text)
    low, high = math.log10(data["rows"][0]), math.log10(data["rows"][-1])
    span = {"range": [low - 0.1, high + 0.1], "tickvals": data["rows"]}
    figure.update_xaxes(type="log", title=words["rows"], gridcolor=ink.line, zeroline=False, **span)
    figure.update_yaxes(type="log", title=words["time"], dtick=1, gridcolor=ink.line, zeroline=False)
    dress(figure, words["title"], provenance, theme, source, words)
    return figure.update_layout(height=400, margin={"l": 74, "r": 24, "t": 110, "b": 52})


def bend_summary(data: dict, words: Mapping[str, str] = WORDS) -> str:
    """First and last point, and the bend."""
    rows, us = data["rows"], data["us"]
    ends = {"low": rows[0], "high": rows[-1], "first": us[0], "last": us[-1], "bend": data["bend"]}
    text = words["sentence"].format(**ends)
    return text + " " + words["eager"].format(eager=data["eager_us"][0], low=rows[0]) if data.get("eager_us") else text


def bend_table(data: dict, words: Mapping[str, str] = WORDS) -> dict[str, list]:
    """One line for each number of rows."""
    eager: Sequence[float | None] = data.get("eager_us") or [None] * len(data["rows"])
    columns = [data["rows"], _rounded(data["us"]), _rounded(eager), *(_rounded(data[name]) for name in _FLOORS)]
    return dict(zip(words["heads"].split("|"), columns, strict=True))


BEND = Picture("bend", bend_figure, bend_summary, bend_table, WORDS)


def _rounded(values: Sequence[float | None]) -> list[float | None]:
    return [None if value is None else round(value, 1) for value in values]
