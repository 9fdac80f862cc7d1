"""Keys of one layer, channel by channel: a histogram for each, heads beside each other."""

from collections.abc import Mapping
from itertools import pairwise

import plotly.graph_objects as go

from lessons.figures.style import BADGE_WORDS, INKS, Picture, Provenance, Theme, dress

WORDS = BADGE_WORDS | {
    "title": "Keys of layer {layer}: one histogram for each channel",
    "channel": "channel of the key (heads beside each other)",
    "value": "value",
    "share": "share of tokens",
    "head": "head {n}",
    "sentence": "The widest of {count} channels reaches {top:.1f}, the median {median:.1f}: {ratio:.1f} times as far.",
    "heads": "head|channel|largest magnitude|tokens in the middle bin %",
}
_LIGHT = [[0.0, "rgba(213,230,245,0)"], [0.02, "#d5e6f5"], [0.3, "#6aa5d6"], [1.0, "#0b3d66"]]
_DARK = [[0.0, "rgba(18,49,77,0)"], [0.02, "#12314d"], [0.3, "#3f82bd"], [1.0, "#d5e6f5"]]


def channels_figure(
    data: dict,
    provenance: Provenance = "Measured",
    theme: Theme = "light",
    source: str = "",
    words: Mapping[str, str] = WORDS,
) -> go.Figure:
    """Channels to the right, values upwards, the share of tokens as darkness.

    Args:
        data: of ``engine.workload.kv_rounding.channel_histogram``, and ``layer``.
    """
    ink, edges, dim = INKS[theme], data["edges"], data["head_dim"]
    middles = [(low + high) / 2 for low, high in pairwise(edges)]
    figure = go.Figure(
        go.Heatmap(
            z=[list(row) for row in zip(*data["share"])],
            x=list(range(len(data["share"]))),
            y=middles,
            colorscale=_DARK if theme == "dark" else _LIGHT,
            zmin=0,
            zmax=max(max(share) for share in data["share"]),
            colorbar={"title": {"text": words["share"], "side": "right"}, "thickness": 10, "tickformat": ".0%"},
        )
    )
    for head in range(data["heads"]):
        figure.add_annotation(
            x=dim * (head + 0.5),
            y=1,
            yref="paper",
            yanchor="bottom",
            text=words["head"].format(n=head),
            showarrow=False,
        )
        if head:
            figure.add_vline(dim * head - 0.5, line={"color": ink.text, "width": 1.2})
    ticks = [dim * head + place for head in range(data["heads"]) for place in range(0, dim, max(1, dim // 4))]
    figure.update_xaxes(
        title=words["channel"], tickvals=ticks, ticktext=[tick % dim for tick in ticks], showgrid=False, zeroline=False
    )
    figure.update_yaxes(title=words["value"], gridcolor=ink.line, zeroline=False)
    dress(figure, words["title"].format(layer=data["layer"]), provenance, theme, source, words)
    return figure.update_layout(height=390, margin={"l": 60, "r": 12, "t": 92, "b": 52})


def channels_summary(data: dict, words: Mapping[str, str] = WORDS) -> str:
    """How far the widest channel reaches beyond the median one."""
    largest = sorted(data["largest"])
    top, median = largest[-1], largest[len(largest) // 2]
    return words["sentence"].format(count=len(largest), top=top, median=median, ratio=top / median)


def channels_table(data: dict, words: Mapping[str, str] = WORDS) -> dict[str, list]:
    """One line for each channel."""
    dim, middle = data["head_dim"], len(data["edges"]) // 2 - 1
    columns = [
        [place // dim for place in range(len(data["largest"]))],
        [place % dim for place in range(len(data["largest"]))],
        [round(value, 2) for value in data["largest"]],
        [round(100 * share[middle], 1) for share in data["share"]],
    ]
    return dict(zip(words["heads"].split("|"), columns, strict=True))


CHANNELS = Picture("channels", channels_figure, channels_summary, channels_table, WORDS)
