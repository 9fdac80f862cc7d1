"""How busy a device says it is, beside what it gets done: three shares as bars."""

from collections.abc import Mapping

import plotly.graph_objects as go

from lessons.figures.style import BADGE_WORDS, INKS, Picture, Provenance, Theme, dress

_LOOKS = {"utilisation": ("#999999", "/"), "bandwidth": ("#0072B2", ""), "peak": ("#D55E00", "")}
WORDS = BADGE_WORDS | {
    "title": "Busy, and with what?",
    "share": "percent",
    "utilisation": "utilisation",
    "bandwidth": "of the bandwidth",
    "peak": "of the matmul peak",
    "unknown": "cannot be asked here",
    "sentence": "{name}: {share}.",
    "heads": "figure|percent",
}


def activity_figure(
    data: dict,
    provenance: Provenance = "Measured",
    theme: Theme = "light",
    source: str = "",
    words: Mapping[str, str] = WORDS,
) -> go.Figure:
    """One bar for each share. ``data``: ``utilisation``, ``bandwidth`` and ``peak``, 0 to 1, or None if unknown."""
    figure, ink = go.Figure(), INKS[theme]
    for name, (color, pattern) in _LOOKS.items():
        marker = {"color": color, "pattern": {"shape": pattern, "solidity": 0.3}}
        figure.add_trace(
            go.Bar(
                orientation="h",
                y=[words[name]],
                x=[100 * (data[name] or 0)],
                text=_said(data[name], words),
                textposition="outside",
                cliponaxis=False,
                marker=marker,
                showlegend=False,
            )
        )
    figure.update_xaxes(title=words["share"], range=[0, 118], gridcolor=ink.line, zeroline=False)
    figure.update_yaxes(autorange="reversed", fixedrange=True, automargin=True)
    dress(figure, words["title"], provenance, theme, source, words)
    return figure.update_layout(height=260, margin={"l": 12, "r": 24, "t": 76, "b": 48})


def activity_summary(data: dict, words: Mapping[str, str] = WORDS) -> str:
    """The three shares in words."""
    return " ".join(words["sentence"].format(name=words[name], share=_said(data[name], words)) for name in _LOOKS)


def activity_table(data: dict, words: Mapping[str, str] = WORDS) -> dict[str, list]:
    """One line for each share."""
    columns = [[words[name] for name in _LOOKS], [_said(data[name], words) for name in _LOOKS]]
    return dict(zip(words["heads"].split("|"), columns, strict=True))


ACTIVITY = Picture("activity", activity_figure, activity_summary, activity_table, WORDS)


def _said(share: float | None, words: Mapping[str, str]) -> str:
    return words["unknown"] if share is None else f"{100 * share:.3g} %"
