"""Where the token slots of a pool went: one bar for each allocator, used and wasted by kind."""

from collections.abc import Mapping

import plotly.graph_objects as go

from lessons.figures.style import BADGE_WORDS, INKS, Fill, Picture, Provenance, Theme, dress

SLOTS: dict[str, Fill] = {
    "used": Fill("used", "#0072B2"),
    "reserved": Fill("reserved, will be used", "#56B4E9", "."),
    "internal": Fill("internal waste", "#D55E00", "/"),
    "external": Fill("external waste", "#E69F00", "x"),
    "free": Fill("free", "#999999", solid=False),
}
_NAMES = ("reserve-max", "contiguous-grow", "paged")
WORDS = (
    BADGE_WORDS
    | {kind: fill.label for kind, fill in SLOTS.items()}
    | {name: name for name in _NAMES}
    | {
        "title": "Slots of the pool while somebody waits",
        "share": "% of the pool",
        "running": "<b>{n:.1f}</b> running",
        "hover": "%{x:.1f} %",
        "sentence": "{name}: {used:.0f} % of the slots used, {n:.1f} requests at once.",
        "heads": "allocator|running|used %|reserved %|internal %|external %|free %|steps in all|preemptions"
        "|tokens moved",
    }
)


def shares_figure(
    data: dict,
    provenance: Provenance = "Computed",
    theme: Theme = "light",
    source: str = "",
    words: Mapping[str, str] = WORDS,
) -> go.Figure:
    """Stacked bars. ``data["allocators"]``: ``name``, ``shares`` by kind (of 1), ``running`` requests."""
    figure, found = go.Figure(), data["allocators"]
    for kind, fill in SLOTS.items():
        bar = go.Bar(
            orientation="h",
            y=[words[each["name"]] for each in found],
            x=[100 * each["shares"][kind] for each in found],
            marker=fill.marker(),
            name=words[kind],
            hovertemplate=f"{words[kind]}: {words['hover']}<extra></extra>",
        )
        figure.add_trace(bar)
    for each in found:
        text = words["running"].format(n=each["running"])
        figure.add_annotation(x=101, y=words[each["name"]], text=text, xanchor="left", showarrow=False)
    figure.update_yaxes(autorange="reversed", fixedrange=True)
    figure.update_xaxes(title=words["share"], range=[0, 122], tickvals=[0, 25, 50, 75, 100], gridcolor=INKS[theme].line)
    dress(figure, words["title"], provenance, theme, source, words)
    figure.update_layout(barmode="stack", height=330, margin={"l": 124, "r": 8, "t": 84, "b": 96}, bargap=0.4)
    return figure.update_layout(legend={"y": -0.36, "yanchor": "top", "traceorder": "normal"})


def shares_summary(data: dict, words: Mapping[str, str] = WORDS) -> str:
    """One sentence for each allocator."""
    return " ".join(
        words["sentence"].format(name=words[each["name"]], used=100 * each["shares"]["used"], n=each["running"])
        for each in data["allocators"]
    )


def shares_table(data: dict, words: Mapping[str, str] = WORDS) -> dict[str, list]:
    """One line for each allocator."""
    lines = [
        [
            words[each["name"]],
            round(each["running"], 1),
            *(round(100 * each["shares"][kind], 1) for kind in SLOTS),
            each["steps"],
            each["preemptions"],
            each["moved"],
        ]
        for each in data["allocators"]
    ]
    return {head: list(column) for head, column in zip(words["heads"].split("|"), zip(*lines))}


SLOT_SHARES = Picture("slot_shares", shares_figure, shares_summary, shares_table, WORDS)
