"""The time of one decoder layer, part by part, with separate operations and with fused ones: Amdahl as two bars."""

from collections.abc import Mapping

import plotly.graph_objects as go

from lessons.figures.style import BADGE_WORDS, INKS, Picture, Provenance, Theme, dress

FILLS = {  # part: colour, pattern
    "norm": ("#D55E00", "/"),
    "swiglu": ("#E69F00", "x"),
    "attention": ("#CC79A7", "."),
    "qkv": ("#0072B2", ""),
    "o": ("#3A93C9", ""),
    "gate_up": ("#56B4E9", ""),
    "down": ("#9AD3F2", ""),
}
WORDS = BADGE_WORDS | {
    "title": "One layer, part by part",
    "time": "microseconds",
    "separate": "separate",
    "fused": "fused",
    "norm": "add + norm, twice",
    "swiglu": "SwiGLU",
    "attention": "attention",
    "qkv": "product QKV",
    "o": "product O",
    "gate_up": "product gate, up",
    "down": "product down",
    "sentence": "Separate {separate:,.0f} µs, fused {fused:,.0f} µs: {gain:.3f}x. Touched: {share:.1f} % of the time.",
    "heads": "part|calls|separate µs|fused µs|share of separate %",
}


def parts_figure(
    data: dict,
    provenance: Provenance = "Measured",
    theme: Theme = "light",
    source: str = "",
    words: Mapping[str, str] = WORDS,
) -> go.Figure:
    """Two stacked bars. ``data["parts"]``: ``name``, ``calls``, ``separate_us`` and ``fused_us`` of a call."""
    figure, ink = go.Figure(), INKS[theme]
    for part in data["parts"]:
        color, pattern = FILLS[part["name"]]
        marker = {
            "color": color,
            "pattern": {"shape": pattern, "solidity": 0.25},
            "line": {"width": 1, "color": ink.line},
        }
        figure.add_trace(
            go.Bar(
                orientation="h",
                y=[words["separate"], words["fused"]],
                x=[part["calls"] * part["separate_us"], part["calls"] * part["fused_us"]],
                marker=marker,
                name=words[part["name"]],
                hovertemplate=f"{words[part['name']]}: %{{x:.1f}} µs<extra></extra>",
            )
        )
    figure.update_xaxes(title=words["time"], gridcolor=ink.line, zeroline=False)
    figure.update_yaxes(autorange="reversed", fixedrange=True)
    dress(figure, words["title"], provenance, theme, source, words)
    return figure.update_layout(
        barmode="stack", height=330, margin={"l": 84, "r": 24, "t": 66, "b": 96}, legend={"y": -0.32, "yanchor": "top"}
    )


def totals(data: dict) -> tuple[float, float, float]:
    """Microseconds of the layer with separate and with fused operations, and the share that fusion touches."""
    separate = sum(part["calls"] * part["separate_us"] for part in data["parts"])
    fused = sum(part["calls"] * part["fused_us"] for part in data["parts"])
    touched = sum(part["calls"] * part["separate_us"] for part in data["parts"] if part["name"] in ("norm", "swiglu"))
    return separate, fused, touched / separate


def parts_summary(data: dict, words: Mapping[str, str] = WORDS) -> str:
    """Both totals and the share that fusion touches."""
    separate, fused, share = totals(data)
    return words["sentence"].format(separate=separate, fused=fused, gain=separate / fused, share=100 * share)


def parts_table(data: dict, words: Mapping[str, str] = WORDS) -> dict[str, list]:
    """One line for each part."""
    whole = totals(data)[0]
    lines = [
        [
            words[part["name"]],
            part["calls"],
            round(part["separate_us"], 1),
            round(part["fused_us"], 1),
            round(100 * part["calls"] * part["separate_us"] / whole, 1),
        ]
        for part in data["parts"]
    ]
    return {head: list(column) for head, column in zip(words["heads"].split("|"), zip(*lines), strict=True)}


PARTS = Picture("parts", parts_figure, parts_summary, parts_table, WORDS)
