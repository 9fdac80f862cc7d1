"""From the limit of the machine down to a run: what each loss costs in tokens/s (``bench throughput``)."""

from collections.abc import Mapping

import plotly.graph_objects as go

from lessons.figures.charts import axes, columns, finish
from lessons.figures.style import INKS, Fill, Provenance, Theme

FILLS = {  # what a bar is: in light, in dark
    "limit": (Fill("limit", "#E69F00", "."), Fill("limit", "#E69F00", ".")),
    "loss": (Fill("loss", "#D55E00", "/"), Fill("loss", "#F0803C", "/")),
    "gain": (Fill("gain", "#009E73", "\\"), Fill("gain", "#2CC295", "\\")),
    "reached": (Fill("reached", "#0072B2"), Fill("reached", "#56B4E9")),
}
WORDS = {
    "loss_title": "Where the rest of the limit went",
    "loss_axis": "tokens/s",
    "loss_limit": "limit of this machine",
    "loss_reached": "this run",
    "loss_sentence": "{reached} of {limit} tokens/s, {percent} % of the limit. Largest loss: {name}, {lost} tokens/s.",
    "loss_heads": "line|seconds|tokens/s|formula",
    "loss_floor": "every step at its component floor",
    "loss_sum": "sum of the lines above",
    "loss_rows_not_full": "rows not full",
    "loss_prefill": "prefill",
    "loss_padding": "padding",
    "loss_decode": "decode",
    "loss_attention": "attention",
    "loss_products": "products",
    "loss_sampling": "sampling",
    "loss_other_kernels": "other kernels",
    "loss_gaps_in_a_step": "gaps in a step",
    "loss_launch_gaps": "launch gaps",
    "loss_host": "host",
}


def losses_figure(
    run: Mapping, provenance: Provenance, theme: Theme = "light", source: str = "", words: Mapping = WORDS
) -> go.Figure:
    """Bars from the limit (Computed from the ceilings of the run) over each loss to the tokens/s that were reached."""
    lost, figure = run["results"]["waterfall"], go.Figure()
    at = lost["limit"]
    _add(figure, words["loss_limit"], (0, at), "limit", theme, f"{at:,.0f}")
    for line in lost["lines"]:
        kind = "loss" if line["tokens_per_s"] >= 0 else "gain"
        span = at, at - line["tokens_per_s"]
        _add(figure, _name(line, words), span, kind, theme, f"{-line['tokens_per_s']:+,.0f}")
        at = span[1]
    _add(figure, words["loss_reached"], (0, at), "reached", theme, f"{at:,.0f}")
    axes(figure, theme, words["loss_axis"], "")
    figure.update_xaxes(range=[0, 1.15 * lost["limit"]]).update_yaxes(autorange="reversed", automargin=True)
    return finish(figure, words["loss_title"], provenance, theme, words, source, 480).update_layout(barmode="overlay")


def losses_summary(run: Mapping, words: Mapping = WORDS) -> str:
    """The waterfall in words."""
    lost = run["results"]["waterfall"]
    worst = max(lost["lines"], key=lambda line: line["tokens_per_s"])
    values = {"reached": f"{lost['output_throughput']:,.0f}", "limit": f"{lost['limit']:,.0f}"}
    share, name = 100 * lost["output_throughput"] / lost["limit"], _name(worst, words)
    return words["loss_sentence"].format(
        percent=f"{share:.0f}", name=name, lost=f"{worst['tokens_per_s']:,.0f}", **values
    )


def losses_table(run: Mapping, words: Mapping = WORDS) -> dict[str, list]:
    """One line for each loss, with its formula (in the engine's own words)."""
    lost = run["results"]["waterfall"]
    rows = [(words["loss_limit"], round(lost["floor_s"], 4), round(lost["limit"], 1), words["loss_floor"])]
    rows += [
        (_name(line, words), round(line["seconds"], 4), round(-line["tokens_per_s"], 1), line["formula"])
        for line in lost["lines"]
    ]
    rows.append(
        (words["loss_reached"], round(lost["wall_s"], 4), round(lost["output_throughput"], 1), words["loss_sum"])
    )
    return columns(words["loss_heads"], rows)


def _name(line: Mapping, words: Mapping) -> str:
    return words["loss_" + line["name"].replace(" ", "_")]


def _add(figure: go.Figure, label: str, span: tuple[float, float], kind: str, theme: Theme, text: str) -> None:
    low, high = sorted(span)
    marker = FILLS[kind][theme == "dark"].marker()
    bar = go.Bar(orientation="h", y=[label], base=[low], x=[max(high - low, 1e-9)], marker=marker)
    figure.add_trace(bar.update(showlegend=False, hovertemplate=f"{label}: {text}<extra></extra>"))
    place = {"x": high, "y": label, "xshift": 6, "xanchor": "left", "showarrow": False}
    figure.add_annotation(text=text, font={"color": INKS[theme].text, "size": 12}, **place)
