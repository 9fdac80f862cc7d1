"""Error of quantised keys and values, by what shares a scale and by layer."""

from collections.abc import Mapping

import plotly.graph_objects as go

from lessons.figures.style import BADGE_WORDS, INKS, Picture, Provenance, Theme, dress

WORDS = BADGE_WORDS | {
    "title": "Rounding error in %, {format}: what shares a scale",
    "layer": "layer",
    "keys": "K",
    "values": "V",
    "tensor": "tensor",
    "head": "head",
    "channel": "channel",
    "token_head": "token, head",
    "sentence": "{part}, {format}, mean of layers: least by {best} ({low:.2f} %), most by {worst} ({high:.2f} %).",
    "heads": "of|a scale for each|layer|error %",
}
_SCALE = [[0.0, "#eaf3fb"], [0.5, "#7fb2dc"], [1.0, "#0b3d66"]]  # light to dark: reads without colour


def grain_map_figure(
    data: dict,
    provenance: Provenance = "Measured",
    theme: Theme = "light",
    source: str = "",
    words: Mapping[str, str] = WORDS,
) -> go.Figure:
    """A map with its numbers written in. ``data``: ``format``, ``keys`` and ``values`` (grain -> % of each layer)."""
    rows = [(part, grain, errors) for part in ("keys", "values") for grain, errors in data[part].items()]
    names = [f"{words[part]} · {words[grain]}" for part, grain, _ in rows]
    layers = list(range(len(rows[0][2])))
    figure = go.Figure(
        go.Heatmap(
            z=[errors for _, _, errors in rows],
            x=layers,
            y=names,
            colorscale=_SCALE,
            zmin=0,
            showscale=False,
            xgap=2,
            ygap=2,
            text=[[_short(error) for error in errors] for _, _, errors in rows],
            texttemplate="%{text}",
            textfont={"size": 12},
            hovertemplate="%{y}, %{x}: %{z:.3f} %<extra></extra>",
        )
    )
    figure.add_hline(3.5, line={"color": INKS[theme].text, "width": 2})
    figure.update_xaxes(title=words["layer"], tickvals=layers, showgrid=False, zeroline=False)
    figure.update_yaxes(autorange="reversed", showgrid=False)
    dress(figure, words["title"].format(format=data["format"]), provenance, theme, source, words)
    return figure.update_layout(height=410, margin={"l": 108, "r": 16, "t": 92, "b": 48})


def grain_map_summary(data: dict, words: Mapping[str, str] = WORDS) -> str:
    """Best and worst of keys, and of values."""
    sentences = []
    for part in ("keys", "values"):
        means = {grain: sum(errors) / len(errors) for grain, errors in data[part].items()}
        best, worst = min(means, key=means.get), max(means, key=means.get)
        named = {"part": words[part], "format": data["format"], "best": words[best], "worst": words[worst]}
        sentences.append(words["sentence"].format(**named, low=means[best], high=means[worst]))
    return " ".join(sentences)


def grain_map_table(data: dict, words: Mapping[str, str] = WORDS) -> dict[str, list]:
    """One line for each cell."""
    rows = [
        (words[part], words[grain], layer, round(error, 3))
        for part in ("keys", "values")
        for grain, errors in data[part].items()
        for layer, error in enumerate(errors)
    ]
    return dict(zip(words["heads"].split("|"), map(list, zip(*rows)), strict=True))


GRAIN_MAP = Picture("grain_map", grain_map_figure, grain_map_summary, grain_map_table, WORDS)


def _short(error: float) -> str:
    return f"{error:.1f}" if error >= 10 else f"{error:.2f}"
