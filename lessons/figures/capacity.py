"""Bytes of one token in the pool, by KV dtype: the numbers, and the scales that quantised numbers need."""

from collections.abc import Mapping

import plotly.graph_objects as go

from lessons.figures.style import BADGE_WORDS, Fill, Picture, Provenance, Theme, dress

KV_LOOKS = {  # KV dtype: colour, symbol, dash; the same in all figures of the KV cache
    "fp32": ("#999999", "circle", "solid"),
    "bf16": ("#0072B2", "circle", "solid"),
    "fp16": ("#0072B2", "circle", "solid"),
    "int8": ("#D55E00", "square", "dash"),
    "fp8": ("#009E73", "diamond", "dot"),
    "int4": ("#CC79A7", "x", "dashdot"),
}
WORDS = BADGE_WORDS | {
    "title": "What one token takes in the pool",
    "bytes": "bytes of a token, keys and values of all layers",
    "numbers": "numbers",
    "scales": "scales",
    "computed": "computed: no kernel yet",
    "fits": "{count:,.0f} tokens in 1 GiB",
    "sentence": "{name}: {bytes:,.0f} bytes, {count:,.0f} tokens in 1 GiB.",
    "heads": "KV dtype|bytes of numbers|bytes of scales|tokens in 1 GiB|counted or computed",
    "yes": "computed",
    "no": "counted",
}
_FILLS = {
    "numbers": Fill("numbers", "#0072B2"),
    "scales": Fill("scales", "#D55E00", "x"),
    "computed": Fill("computed", "#CC79A7", "/"),
}


def capacity_figure(
    data: list[dict],
    provenance: Provenance = "Measured",
    theme: Theme = "light",
    source: str = "",
    words: Mapping[str, str] = WORDS,
) -> go.Figure:
    """Stacked bars. ``data``: ``name``, ``numbers`` and ``scales`` (bytes) and ``computed`` of each KV dtype."""
    figure = go.Figure()
    names = [entry["name"] for entry in data]
    parts = {
        "numbers": [0 if entry["computed"] else entry["numbers"] for entry in data],
        "computed": [entry["numbers"] if entry["computed"] else 0 for entry in data],
        "scales": [entry["scales"] for entry in data],
    }
    for part, values in parts.items():
        figure.add_trace(
            go.Bar(y=names, x=values, name=words[part], orientation="h", marker=_FILLS[part].marker(), width=0.62)
        )
    for entry in data:
        text = words["fits"].format(count=_fits(entry))
        figure.add_annotation(x=_bytes(entry), y=entry["name"], text=text, xanchor="left", xshift=6, showarrow=False)
    widest = max(map(_bytes, data))
    figure.update_xaxes(title=words["bytes"], range=[0, 1.7 * widest], showgrid=False, zeroline=False)
    figure.update_yaxes(autorange="reversed")
    dress(figure, words["title"], provenance, theme, source, words)
    figure.update_layout(
        barmode="stack",
        legend_traceorder="normal",
        height=120 + 46 * len(data),
        margin={"l": 56, "r": 12, "t": 92, "b": 52},
    )
    return figure


def capacity_summary(data: list[dict], words: Mapping[str, str] = WORDS) -> str:
    """Each KV dtype with its bytes and what fits."""
    return " ".join(
        words["sentence"].format(name=entry["name"], bytes=_bytes(entry), count=_fits(entry)) for entry in data
    )


def capacity_table(data: list[dict], words: Mapping[str, str] = WORDS) -> dict[str, list]:
    """One line for each KV dtype."""
    columns = [
        [entry["name"] for entry in data],
        [entry["numbers"] for entry in data],
        [entry["scales"] for entry in data],
        [round(_fits(entry)) for entry in data],
        [words["yes" if entry["computed"] else "no"] for entry in data],
    ]
    return dict(zip(words["heads"].split("|"), columns, strict=True))


CAPACITY = Picture("capacity", capacity_figure, capacity_summary, capacity_table, WORDS)


def _bytes(entry: dict) -> float:
    return entry["numbers"] + entry["scales"]


def _fits(entry: dict) -> float:
    return 2**30 / _bytes(entry)
