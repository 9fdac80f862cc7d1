"""Operations on one's own roofline: rate against operations per byte, under the roofs of bandwidth and matmul peak."""

import math
from collections.abc import Mapping

import plotly.graph_objects as go

from lessons.figures.style import BADGE_WORDS, INKS, Picture, Provenance, Theme, dress, mark_line

_BINDS = {"launch": ("#999999", "x"), "bandwidth": ("#E69F00", "circle"), "compute": ("#D55E00", "square")}
WORDS = BADGE_WORDS | {
    "title": "Your own roofline",
    "intensity": "operations per byte",
    "rate": "operations per second",
    "roofs": "roofs: bandwidth, then matmul peak",
    "ridge": "ridge: {ridge:,.0f} operations per byte",
    "launch": "a launch binds",
    "bandwidth": "bandwidth binds",
    "compute": "operations bind",
    "sentence": "{name}: {share:.0f} % of what binds it ({binds}).",
    "layer": "{n} rows",
    "add_one": "add 1",
    "norm": "norm of a row",
    "copy": "copy",
    "product_1": "product, 1 row",
    "product_many": "product, 512 rows",
    "scores": "scores of a prompt",
    "heads": "operation|operations per byte|µs|floor µs|% of floor|binds",
}


def floors_us(dot: Mapping, machine: Mapping) -> dict[str, float]:
    """The three floors of an operation with ``flops`` and ``bytes``, in microseconds."""
    return {
        "launch": machine["launch_s"] * 1e6,
        "bandwidth": dot["bytes"] / machine["bandwidth"] * 1e6,
        "compute": dot["flops"] / machine["flops"] * 1e6,
    }


def binds(dot: Mapping, machine: Mapping) -> str:
    """Which floor of an operation is the largest."""
    floors = floors_us(dot, machine)
    return max(floors, key=floors.__getitem__)


def ceilings_figure(
    data: dict,
    provenance: Provenance = "Measured",
    theme: Theme = "light",
    source: str = "",
    words: Mapping[str, str] = WORDS,
) -> go.Figure:
    """Dots under two roofs, log-log.

    Args:
        data: ``machine`` (``bandwidth`` bytes/s, ``flops``, ``launch_s``) and ``dots``, each with ``flops``, ``bytes``,
            ``us`` and ``name``, the id of its word (with ``rows`` where the word counts them). The mark tells what
            binds: a launch, bandwidth, operations.
    """
    figure, ink, machine = go.Figure(), INKS[theme], data["machine"]
    ridge = machine["flops"] / machine["bandwidth"]
    places = [dot["flops"] / dot["bytes"] for dot in data["dots"]]
    low, high = min(*places, ridge) / 3, max(*places, ridge) * 3
    line = {"color": ink.text, "width": 2}
    roof = [low * machine["bandwidth"], machine["flops"], machine["flops"]]
    figure.add_trace(go.Scatter(x=[low, ridge, high], y=roof, mode="lines", name=words["roofs"], line=line))
    for kind, (color, symbol) in _BINDS.items():
        dots = [dot for dot in data["dots"] if binds(dot, machine) == kind]
        figure.add_trace(
            go.Scatter(
                x=[dot["flops"] / dot["bytes"] for dot in dots],
                y=[dot["flops"] / dot["us"] * 1e6 for dot in dots],
                text=[_label(dot, words) for dot in dots],
                mode="markers+text",
                textposition="bottom center",
                name=words[kind],
                marker={"color": color, "symbol": symbol, "size": 11},
            )
        )
    figure.add_vline(ridge, line={"color": ink.dim, "dash": "dash"})
    mark_line(figure, ridge, words["ridge"].format(ridge=ridge), ink.text)
    span = [math.log10(low), math.log10(high)]
    figure.update_xaxes(type="log", title=words["intensity"], dtick=1, gridcolor=ink.line, zeroline=False, range=span)
    figure.update_yaxes(type="log", title=words["rate"], dtick=1, gridcolor=ink.line, zeroline=False)
    dress(figure, words["title"], provenance, theme, source, words)
    return figure.update_layout(height=420, margin={"l": 74, "r": 24, "t": 110, "b": 52})


def ceilings_summary(data: dict, words: Mapping[str, str] = WORDS) -> str:
    """One sentence for each operation."""
    return " ".join(_sentence(dot, data["machine"], words) for dot in data["dots"])


def ceilings_table(data: dict, words: Mapping[str, str] = WORDS) -> dict[str, list]:
    """One line for each operation."""
    lines = [_line(dot, data["machine"], words) for dot in data["dots"]]
    return {head: list(column) for head, column in zip(words["heads"].split("|"), zip(*lines), strict=True)}


CEILINGS = Picture("ceilings", ceilings_figure, ceilings_summary, ceilings_table, WORDS)


def _sentence(dot: Mapping, machine: Mapping, words: Mapping[str, str]) -> str:
    kind = binds(dot, machine)
    share = 100 * floors_us(dot, machine)[kind] / dot["us"]
    return words["sentence"].format(name=_label(dot, words), share=share, binds=words[kind])


def _line(dot: Mapping, machine: Mapping, words: Mapping[str, str]) -> list:
    kind = binds(dot, machine)
    floor = floors_us(dot, machine)[kind]
    intensity, share = round(dot["flops"] / dot["bytes"], 3), round(100 * floor / dot["us"])
    return [_label(dot, words), intensity, round(dot["us"], 1), round(floor, 1), share, words[kind]]


def _label(dot: Mapping, words: Mapping[str, str]) -> str:
    return words[dot["name"]].format(n=dot.get("rows", ""))
