"""The pool at one step: a cell for each block, with its owner, its place in the owner's table, and how full it is."""

from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from lessons.figures.style import BADGE_WORDS, INKS, Picture, Provenance, Theme, dress

ACROSS = 16
_KINDS = ("full", "partial", "free")
_COLORS = {"full": "#56B4E9", "partial": "#E69F00", "free": "#999999"}
_GLYPHS = {"full": "■", "partial": "◧", "free": "·"}
WORDS = BADGE_WORDS | {
    "title": "The pool at step {step}",
    "full": "■ full block",
    "partial": "◧ last block, partly filled",
    "free": "· free",
    "hover": "block %{customdata[0]}<br>%{customdata[1]}",
    "holds": "{owner}, block {place} of its table, {tokens} of {size} slots hold a token",
    "nobody": "free",
    "sentence": "{full} full blocks, {partial} partly filled ones and {free} free ones; {waiting} requests wait.",
    "heads": "request|tokens|blocks, in the order of the table",
}


def grid_figure(
    data: dict,
    provenance: Provenance = "Measured",
    theme: Theme = "light",
    source: str = "",
    words: Mapping[str, str] = WORDS,
) -> go.Figure:
    """One heat map. ``data``: as ``engine.workload.paged_study.grid`` gives it."""
    blocks, ink = data["blocks"], INKS[theme]
    lines = [blocks[at : at + ACROSS] for at in range(0, len(blocks), ACROSS)]
    kinds = [[kind_of(block, data["block_size"]) for block in line] for line in lines]
    figure = go.Figure(
        go.Heatmap(
            z=[[_KINDS.index(kind) if kind != "free" else None for kind in line] for line in kinds],
            x=list(range(ACROSS)),
            y=[1 + place * ACROSS for place in range(len(lines))],
            text=[[_mark(block, kind) for block, kind in zip(line, row)] for line, row in zip(lines, kinds)],
            texttemplate="%{text}",
            textfont={"size": 11, "color": "#10151f"},
            customdata=_hovers(lines, data["block_size"], words),
            hovertemplate=f"{words['hover']}<extra></extra>",
            colorscale=[
                [0, _COLORS["full"]],
                [0.5, _COLORS["full"]],
                [0.5, _COLORS["partial"]],
                [1, _COLORS["partial"]],
            ],
            zmin=0,
            zmax=1,
            showscale=False,
            xgap=2,
            ygap=2,
        )
    )
    _add_free(figure, lines, kinds, ink.dim)
    for kind in _KINDS:
        marker = {"symbol": "square", "size": 11, "color": _COLORS[kind]}
        figure.add_trace(go.Scatter(x=[None], y=[None], mode="markers", marker=marker, name=words[kind]))
    figure.update_xaxes(visible=False, fixedrange=True, range=[-0.5, ACROSS - 0.5])
    figure.update_yaxes(
        autorange="reversed",
        fixedrange=True,
        showgrid=False,
        zeroline=False,
        tickvals=[1 + place * ACROSS for place in range(len(lines))],
    )
    dress(figure, words["title"].format(step=data["step"]), provenance, theme, source, words)
    return figure.update_layout(height=110 + 38 * len(lines), margin={"l": 44, "r": 12, "t": 84, "b": 12})


def grid_summary(data: dict, words: Mapping[str, str] = WORDS) -> str:
    """Blocks by kind, and who waits."""
    kinds = [kind_of(block, data["block_size"]) for block in data["blocks"]]
    return words["sentence"].format(waiting=data["waiting"], **{kind: kinds.count(kind) for kind in _KINDS})


def grid_table(data: dict, words: Mapping[str, str] = WORDS) -> dict[str, list]:
    """The block tables."""
    tables = {name: " ".join(map(str, blocks)) for name, blocks in data["tables"].items()}
    columns = [list(tables), [data["tokens"][name] for name in tables], list(tables.values())]
    return dict(zip(words["heads"].split("|"), columns, strict=True))


BLOCK_GRID = Picture("block_grid", grid_figure, grid_summary, grid_table, WORDS)


def kind_of(block: Sequence | None, block_size: int) -> str:
    """``full``, ``partial`` or ``free``. ``block``: owner, place in its table, tokens in it; None: nobody's."""
    return "free" if block is None else "full" if block[2] == block_size else "partial"


def _mark(block: Sequence | None, kind: str) -> str:
    return "" if block is None else f"{block[0]}{_GLYPHS[kind]}"


def _hovers(lines: list[list], size: int, words: Mapping[str, str]) -> list[list]:
    return [
        [[1 + place * ACROSS + column, _hover(block, size, words)] for column, block in enumerate(line)]
        for place, line in enumerate(lines)
    ]


def _hover(block: Sequence | None, size: int, words: Mapping[str, str]) -> str:
    if block is None:
        return words["nobody"]
    return words["holds"].format(owner=block[0], place=block[1], tokens=block[2], size=size)


def _add_free(figure: go.Figure, lines: list[list], kinds: list[list[str]], color: str) -> None:
    """A dot in each cell that nobody holds: its text must be legible on the page itself, not on a filled cell."""
    spots = [
        (column, 1 + place * ACROSS)
        for place, line in enumerate(lines)
        for column, _ in enumerate(line)
        if kinds[place][column] == "free"
    ]
    figure.add_trace(
        go.Scatter(
            x=[column for column, _ in spots],
            y=[row for _, row in spots],
            mode="markers",
            marker={"symbol": "circle", "size": 4, "color": color},
            hoverinfo="skip",
            showlegend=False,
        )
    )
