"""What the figures of the Kernel Lab share: axes, a badge in the reader's words, and tables from rows."""

from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from lessons.figures.style import INKS, Provenance, Theme, dress


def axes(figure: go.Figure, theme: Theme, x: str, y: str) -> None:
    """Title both axes, with a quiet grid."""
    ink = INKS[theme]
    font = {"color": ink.dim, "size": 12}
    figure.update_xaxes(title={"text": x, "font": font}, gridcolor=ink.line, zeroline=False)
    figure.update_yaxes(title={"text": y, "font": font}, gridcolor=ink.line, zeroline=False)


def finish(
    figure: go.Figure,
    title: str,
    provenance: Provenance,
    theme: Theme,
    words: Mapping[str, str],
    source: str = "",
    height: int = 380,
) -> go.Figure:
    """The common look; ``words`` may translate the badge."""
    dress(figure, title, provenance, theme, source)
    shown = words.get(provenance, provenance)
    figure.layout.annotations[-1].text = f"{shown}: {source}" if source else shown
    return figure.update_layout(height=height, margin={"l": 64, "r": 24, "t": 84, "b": 52})


def columns(heads: str, rows: Sequence[Sequence]) -> dict[str, list]:
    """``"a|b"`` and rows -> column -> values."""
    return {head: [row[at] for row in rows] for at, head in enumerate(heads.split("|"))}
