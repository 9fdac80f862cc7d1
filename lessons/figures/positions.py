"""Milliseconds of each token of an answer: with a KV cache, and with everything computed anew for each of them."""

from collections.abc import Mapping

import plotly.graph_objects as go

from lessons.figures.style import BADGE_WORDS, INKS, Picture, Provenance, Theme, dress

WORDS = BADGE_WORDS | {
    "title": "Milliseconds of each token",
    "token": "token of the answer",
    "time": "milliseconds",
    "cached_ms": "with the KV cache",
    "uncached_ms": "without: everything anew",
    "sentence": "{n} tokens: {cached:,.0f} ms with the cache, {uncached:,.0f} ms without, {ratio:.1f} times as long.",
    "heads": "token|with cache ms|without ms",
}
_SERIES = {"uncached_ms": ("#D55E00", "x"), "cached_ms": ("#0072B2", "circle")}


def positions_figure(
    data: dict,
    provenance: Provenance = "Measured",
    theme: Theme = "light",
    source: str = "",
    words: Mapping[str, str] = WORDS,
) -> go.Figure:
    """Time against place, in logarithms. ``data``: ``cached_ms`` and ``uncached_ms``, one number a token."""
    figure, ink = go.Figure(), INKS[theme]
    for name, (color, symbol) in _SERIES.items():
        places = list(range(1, len(data[name]) + 1))
        marker = {"color": color, "symbol": symbol, "size": 7}
        figure.add_trace(
            go.Scatter(x=places, y=data[name], mode="lines+markers", name=words[name], marker=marker, line={"width": 1})
        )
    figure.update_xaxes(title=words["token"], gridcolor=ink.line, zeroline=False)
    figure.update_yaxes(title=words["time"], type="log", dtick=1, gridcolor=ink.line, zeroline=False)
    dress(figure, words["title"], provenance, theme, source, words)
    return figure.update_layout(height=360, margin={"l": 64, "r": 24, "t": 96, "b": 48})


def positions_summary(data: dict, words: Mapping[str, str] = WORDS) -> str:
    """Both totals and their ratio."""
    cached, uncached = sum(data["cached_ms"]), sum(data["uncached_ms"])
    numbers = {"cached": cached, "uncached": uncached, "ratio": uncached / cached, "n": len(data["cached_ms"])}
    return words["sentence"].format(**numbers)


def positions_table(data: dict, words: Mapping[str, str] = WORDS) -> dict[str, list]:
    """One line for each token."""
    both = [[round(value, 2) for value in data[name]] for name in ("cached_ms", "uncached_ms")]
    return dict(zip(words["heads"].split("|"), [list(range(1, len(both[0]) + 1)), *both], strict=True))


POSITIONS = Picture("positions", positions_figure, positions_summary, positions_table, WORDS)
