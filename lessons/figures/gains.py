"""How many times faster one pass is than separate operations, against the rows; bytes alone predict a flat line."""

from collections.abc import Mapping

import plotly.graph_objects as go

from lessons.figures.style import BADGE_WORDS, INKS, Picture, Provenance, Theme, dress

WORDS = BADGE_WORDS | {
    "title": "Separate operations over one pass",
    "rows": "rows",
    "ratio": "times as long",
    "measured": "measured",
    "bytes": "by bytes: {ratio:.2f}x",
    "even": "no difference",
    "sentence": "By bytes {ratio:.2f}x; measured {first:.2f}x at {low:,} rows and {last:.2f}x at {high:,}.",
    "heads": "rows|separate µs|one pass µs|measured ratio|ratio by bytes",
}


def gains_figure(
    data: dict,
    provenance: Provenance = "Measured",
    theme: Theme = "light",
    source: str = "",
    words: Mapping[str, str] = WORDS,
) -> go.Figure:
    """Ratio against rows, rows in logarithms. ``data``: ``entries`` (``rows``, ``separate_us``, ``fused_us``) and
    ``predicted``, the ratio of bytes."""
    figure, ink = go.Figure(), INKS[theme]
    rows, ratios = [entry["rows"] for entry in data["entries"]], _ratios(data)
    predicted = {"color": "#E69F00", "dash": "dash", "width": 2}
    text = words["bytes"].format(ratio=data["predicted"])
    figure.add_trace(
        go.Scatter(x=[rows[0], rows[-1]], y=[data["predicted"]] * 2, mode="lines", name=text, line=predicted)
    )
    marker = {"color": "#0072B2", "size": 10}
    figure.add_trace(go.Scatter(x=rows, y=ratios, mode="lines+markers", name=words["measured"], marker=marker))
    figure.add_hline(1, line={"color": ink.dim, "dash": "dot", "width": 1}, annotation_text=words["even"])
    figure.update_xaxes(type="log", title=words["rows"], tickvals=rows, gridcolor=ink.line, zeroline=False)
    figure.update_yaxes(title=words["ratio"], rangemode="tozero", ticksuffix="x", gridcolor=ink.line, zeroline=False)
    dress(figure, words["title"], provenance, theme, source, words)
    return figure.update_layout(height=360, margin={"l": 64, "r": 24, "t": 100, "b": 48})


def gains_summary(data: dict, words: Mapping[str, str] = WORDS) -> str:
    """The first and the last ratio beside the prediction."""
    entries, ratios = data["entries"], _ratios(data)
    ends = {"low": entries[0]["rows"], "high": entries[-1]["rows"], "first": ratios[0], "last": ratios[-1]}
    return words["sentence"].format(ratio=data["predicted"], **ends)


def gains_table(data: dict, words: Mapping[str, str] = WORDS) -> dict[str, list]:
    """One line for each number of rows."""
    lines = [
        [entry["rows"], round(entry["separate_us"], 1), round(entry["fused_us"], 1), round(ratio, 2)]
        for entry, ratio in zip(data["entries"], _ratios(data), strict=True)
    ]
    columns = [list(column) for column in zip(*lines, strict=True)]
    return dict(zip(words["heads"].split("|"), [*columns, [round(data["predicted"], 2)] * len(lines)], strict=True))


GAINS = Picture("gains", gains_figure, gains_summary, gains_table, WORDS)


def _ratios(data: dict) -> list[float]:
    return [entry["separate_us"] / entry["fused_us"] for entry in data["entries"]]
