"""Tokens/s against the pressure on the pool for both capacity policies, and what is computed twice for it."""

from collections.abc import Mapping

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from lessons.figures.style import BADGE_WORDS, INKS, Picture, Provenance, Theme, dress

_LOOKS = {"max-utilization": ("#0072B2", "circle", "solid"), "guaranteed-no-evict": ("#D55E00", "square-open", "dash")}
_NAMES = {name: name.replace("-", "_").upper() for name in _LOOKS}
WORDS = (
    BADGE_WORDS
    | _NAMES
    | {
        "title": "Two policies under pressure",
        "pressure": "pressure: demand / pool",
        "speed": "tokens/s",
        "share": "computed twice, %",
        "preempted": "{n} preempted",
        "predicted": "predicted by the cost of a step",
        "sentence": "At pressure {pressure:g}: {parts}.",
        "part": "{name} {speed:,.0f} tok/s in {steps} steps, {n} preemptions",
        "heads": "pressure|blocks|policy|tok/s|predicted tok/s|steps|preemptions|tokens computed twice|useful tokens",
    }
)


def pressure_figure(
    data: dict,
    provenance: Provenance = "Measured",
    theme: Theme = "light",
    source: str = "",
    words: Mapping[str, str] = WORDS,
) -> go.Figure:
    """Speed above, recomputed share below. ``data["entries"]``: as ``engine.workload.pressure`` gives them."""
    figure, ink = (
        make_subplots(rows=2, cols=1, shared_xaxes=True, vertical_spacing=0.09, row_heights=[0.68, 0.32]),
        INKS[theme],
    )
    for name, (color, symbol, dash) in _LOOKS.items():
        found = [entry for entry in data["entries"] if entry["policy"] == name]
        x = [entry["pressure"] for entry in found]
        line, marker = {"color": color, "dash": dash, "width": 2}, {"color": color, "symbol": symbol, "size": 11}
        speed = [entry["tok_s"] for entry in found]
        figure.add_trace(
            go.Scatter(x=x, y=speed, mode="lines+markers", name=words[name], line=line, marker=marker), 1, 1
        )
        predicted = [entry["predicted_tok_s"] for entry in found]
        marker = {"symbol": "diamond-tall-open", "size": 9, "color": color}
        label = words["predicted"]
        trace = go.Scatter(x=x, y=predicted, mode="markers", name=label, marker=marker, legendgroup="predicted")
        figure.add_trace(trace.update(showlegend=name == "max-utilization"), 1, 1)
    _add_twice(figure, data["entries"], words)
    figure.update_xaxes(
        gridcolor=ink.line, zeroline=False, tickvals=sorted({entry["pressure"] for entry in data["entries"]})
    )
    figure.update_xaxes(title=words["pressure"], row=2, col=1)
    figure.update_yaxes(gridcolor=ink.line, zeroline=False, rangemode="tozero")
    figure.update_yaxes(title=words["speed"], row=1, col=1)
    highest = max(100 * entry["recomputed"] / entry["useful"] for entry in data["entries"])
    figure.update_yaxes(title=words["share"], range=[0, 1.35 * max(1.0, highest)], row=2, col=1)
    dress(figure, words["title"], provenance, theme, source, words)
    figure.update_layout(height=480, margin={"l": 74, "r": 24, "t": 84, "b": 110}, bargap=0.6)
    return figure.update_layout(legend={"y": -0.2, "yanchor": "top"})


def pressure_summary(data: dict, words: Mapping[str, str] = WORDS) -> str:
    """One sentence for each pressure."""
    sentences = []
    for pressure in sorted({entry["pressure"] for entry in data["entries"]}):
        found = [entry for entry in data["entries"] if entry["pressure"] == pressure]
        facts = (
            words["part"].format(
                name=words[entry["policy"]], speed=entry["tok_s"], steps=entry["steps"], n=entry["preemptions"]
            )
            for entry in found
        )
        sentences.append(words["sentence"].format(pressure=pressure, parts="; ".join(facts)))
    return " ".join(sentences)


def pressure_table(data: dict, words: Mapping[str, str] = WORDS) -> dict[str, list]:
    """One line for each pressure and policy."""
    lines = [
        [
            entry["pressure"],
            entry["pool"],
            words[entry["policy"]],
            round(entry["tok_s"], 1),
            round(entry["predicted_tok_s"], 1),
            entry["steps"],
            entry["preemptions"],
            entry["recomputed"],
            entry["useful"],
        ]
        for entry in data["entries"]
    ]
    return {head: list(column) for head, column in zip(words["heads"].split("|"), zip(*lines))}


PRESSURE = Picture("pressure_curve", pressure_figure, pressure_summary, pressure_table, WORDS)


def _add_twice(figure: go.Figure, entries: list[dict], words: Mapping[str, str]) -> None:
    found = [entry for entry in entries if entry["policy"] == "max-utilization"]
    figure.add_trace(
        go.Bar(
            x=[entry["pressure"] for entry in found],
            y=[100 * entry["recomputed"] / entry["useful"] for entry in found],
            text=[words["preempted"].format(n=entry["preemptions"]) for entry in found],
            textposition="outside",
            textfont={"size": 11},
            constraintext="none",
            cliponaxis=False,
            width=0.12,
            marker={"color": "#0072B2", "pattern": {"shape": "/"}},
            showlegend=False,
        ),
        row=2,
        col=1,
    )
