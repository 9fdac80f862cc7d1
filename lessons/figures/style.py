"""One look for all figures: Okabe-Ito colours, a pattern beside each, light and dark, provenance in a corner."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

import plotly.graph_objects as go

Theme = Literal["light", "dark"]
Provenance = Literal["Measured", "Recorded", "Simulated", "Computed", "Schematic"]


@dataclass(frozen=True, slots=True)
class Picture:
    """A figure as a lesson shows it, with its words.

    Args:
        name: of the module; its Chinese words stand in ``lessons/zh/figures/<name>.md``.
        draw: ``(data, provenance, theme, source, words) -> Figure``.
        summary: ``(data, words) -> str``, the figure said in words.
        table: ``(data, words) -> columns by heading``.
        words: the English words by id.
    """

    name: str
    draw: Callable[..., go.Figure] = field(repr=False)
    summary: Callable[..., str] = field(repr=False)
    table: Callable[..., Mapping[str, list]] = field(repr=False)
    words: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Ink:
    """Text, secondary text and rule colours of a theme."""

    text: str
    dim: str
    line: str


INKS: dict[str, Ink] = {
    "light": Ink("#1c2330", "#667085", "#e3e6ec"),
    "dark": Ink("#e8ecf3", "#98a2b3", "#2a3240"),
}


@dataclass(frozen=True, slots=True)
class Fill:
    """How one kind of thing is filled: a colour and a pattern, never colour alone."""

    label: str
    color: str
    pattern: str = ""
    solid: bool = True

    def marker(self) -> dict:
        """A Plotly bar marker."""
        if self.solid and not self.pattern:
            return {"color": self.color, "line": {"width": 0}}
        pattern = {"shape": self.pattern, "fgcolor": self.color, "bgcolor": "rgba(0,0,0,0)", "size": 5, "solidity": 0.3}
        line = {"width": 0.7, "color": self.color}
        return {"color": "rgba(0,0,0,0)", "line": line} | ({"pattern": pattern} if self.pattern else {})


ROW_STEPS: dict[str, Fill] = {
    "useful": Fill("useful decode", "#0072B2"),
    "prefill": Fill("prefill", "#56B4E9"),
    "padded": Fill("padded: computed and thrown away", "#D55E00", "/"),
    "idle": Fill("idle", "#999999", solid=False),
}
FACTOR_FILLS: dict[str, Fill] = {
    "ideal": Fill("ideal: static's steps over the fewest", "#999999"),
    "drain": Fill("drain of the last requests", "#E69F00", "\\"),
    "step_shape": Fill("step shape: a full step costs more", "#CC79A7", "x"),
    "prefill": Fill("prefill between decodes", "#56B4E9", "."),
    "idle": Fill("idle: no step runs", "#F0E442", "-"),
}
SCHEDULERS: dict[str, tuple[str, str]] = {
    "static": ("static, padded", "finished rows keep computing"),
    "static_shrinking": ("static, shrinking", "finished rows leave"),
    "dynamic": ("dynamic", "a batch for each time window"),
    "in_flight": ("in-flight", "join and leave at each step"),
}
SCHEDULER_WORDS = {name: title for name, (title, _) in SCHEDULERS.items()}
BADGE = "badge"  # name of the annotation that holds it
BADGES: tuple[Provenance, ...] = ("Measured", "Recorded", "Simulated", "Computed", "Schematic")
BADGE_WORDS = {kind: kind for kind in BADGES}


def dress(
    figure: go.Figure,
    title: str,
    provenance: Provenance,
    theme: Theme,
    source: str = "",
    words: Mapping[str, str] = BADGE_WORDS,
) -> go.Figure:
    """Apply the common layout: title, fonts, quiet background, and a provenance badge in the top right corner.

    ``words`` say the badge in the reader's language.
    """
    ink = INKS[theme]
    figure.update_layout(
        title={"text": title, "x": 0, "xref": "container", "font": {"size": 16, "color": ink.text}, "pad": {"l": 12}},
        font={"family": "system-ui, sans-serif", "size": 13, "color": ink.text},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        margin={"l": 150, "r": 24, "t": 66, "b": 44},
        hoverlabel={"font": {"family": "system-ui, sans-serif"}},
        legend={"orientation": "h", "y": 1.0, "yanchor": "bottom", "x": 0, "font": {"color": ink.dim, "size": 12}},
        uirevision="keep",
    )
    word = words.get(provenance, provenance)
    badge = word if not source else f"{word}: {source}"
    figure.add_annotation(
        text=badge,
        name=BADGE,
        xref="paper",
        yref="paper",
        x=1,
        y=1,
        yshift=44,
        xanchor="right",
        showarrow=False,
        font={"size": 12, "color": BADGE_COLORS[theme][provenance]},
        bordercolor=BADGE_COLORS[theme][provenance],
        borderwidth=1.2,
        borderpad=3,
    )
    return figure


# As the badges of the pages: words have to be read on either background (4.5:1 and more)
BADGE_COLORS: dict[Theme, dict[Provenance, str]] = {
    "light": {"Measured": "#00724f", "Recorded": "#0072b2"} | dict.fromkeys(BADGES[2:], "#8a5a00"),
    "dark": {"Measured": "#3ccf9f", "Recorded": "#56b4e9"} | dict.fromkeys(BADGES[2:], "#f0b93a"),
}


def mark_line(figure: go.Figure, x: float, text: str, color: str) -> None:
    """Name a vertical line of a figure whose x axis is logarithmic, at its foot. (Plotly places annotations of such an
    axis by the logarithm, and does not convert those of its own lines.)"""
    place = {"x": math.log10(x), "y": 0, "yref": "paper", "xanchor": "left", "yanchor": "bottom", "xshift": 4}
    figure.add_annotation(text=text, showarrow=False, font={"color": color, "size": 12}, **place)
