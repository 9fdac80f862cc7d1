"""A run under pressure, step by step: who held a row when, who lost it, and how full the pool was."""

from collections.abc import Mapping

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from lessons.figures.style import BADGE_WORDS, INKS, Picture, Provenance, Theme, dress

_RUNS = {0: "#0072B2", 1: "#56B4E9"}  # by priority
WORDS = BADGE_WORDS | {
    "title": "Rows, preemptions and blocks",
    "steps": "step",
    "blocks": "blocks in use",
    "pool": "pool: {n} blocks",
    "arrive": "arrives",
    "run": "runs",
    "run_less": "runs, less important",
    "preempt": "preempted",
    "resume": "resumed",
    "hover": "%{customdata[0]}: steps %{customdata[1]} to %{customdata[2]}",
    "sentence": "{n} requests in {steps} steps on {pool} blocks: {done} ended, {preempted} preemptions.",
    "most": "Most often preempted: {name} ({n} x).",
    "heads": "request|arrived at step|first step|steps with a row|preemptions",
}


def line_figure(
    data: dict,
    provenance: Provenance = "Measured",
    theme: Theme = "light",
    source: str = "",
    words: Mapping[str, str] = WORDS,
) -> go.Figure:
    """Bars of requests over an area of blocks. ``data``: ``requests``, ``used`` and ``pool``, of a real run
    (``engine.workload.pressure``) or of a toy (``engine.workload.toy_preemption``)."""
    requests, ink = data["requests"], INKS[theme]
    figure = make_subplots(rows=2, cols=1, shared_xaxes=True, vertical_spacing=0.06, row_heights=[0.72, 0.28])
    _add_rows(figure, requests, words)
    _add_marks(figure, requests, ink.text, words)
    steps = list(range(1, len(data["used"]) + 1))
    line = {"color": "#009E73", "width": 1.6, "shape": "hv"}
    area = go.Scatter(x=steps, y=data["used"], mode="lines", name=words["blocks"], line=line, fill="tozeroy")
    figure.add_trace(area, row=2, col=1)
    edge = {"color": ink.text, "dash": "dash", "width": 1.2}
    figure.add_hline(data["pool"], line=edge, row=2, col=1)
    names = {"type": "category", "dtick": 1, "tickfont": {"size": 11}}
    figure.update_yaxes(autorange="reversed", fixedrange=True, row=1, col=1, **names)
    figure.update_yaxes(range=[0, 1.18 * data["pool"]], gridcolor=ink.line, zeroline=False, row=2, col=1)
    figure.update_yaxes(title=words["pool"].format(n=data["pool"]), row=2, col=1)
    figure.update_xaxes(gridcolor=ink.line, zeroline=False)
    figure.update_xaxes(title=words["steps"], row=2, col=1)
    dress(figure, words["title"], provenance, theme, source, words)
    height = 290 + max(90, 15 * len(requests))
    margin = {"l": 74, "r": 20, "t": 84, "b": 100}
    figure.update_layout(barmode="overlay", bargap=0.3, height=height, margin=margin)
    return figure.update_layout(legend={"y": -62 / (height - 184), "yanchor": "top"})


def line_summary(data: dict, words: Mapping[str, str] = WORDS) -> str:
    """Counts, and who was preempted most often."""
    lost = {each["label"]: _lost(each) for each in data["requests"]}
    facts = {"n": len(lost), "steps": len(data["used"]), "pool": data["pool"], "preempted": sum(lost.values())}
    done = data.get("done", len(lost))
    text = words["sentence"].format(done=done, **facts)
    name = max(lost, key=lost.__getitem__)
    return text + " " + words["most"].format(name=name, n=lost[name]) if lost[name] else text


def line_table(data: dict, words: Mapping[str, str] = WORDS) -> dict[str, list]:
    """One line for each request."""
    lines = [
        [
            each["label"],
            each["arrived"],
            each["spans"][0][0] if each["spans"] else None,
            sum(last - first + 1 for first, last, _ in each["spans"]),
            _lost(each),
        ]
        for each in data["requests"]
    ]
    return {head: list(column) for head, column in zip(words["heads"].split("|"), zip(*lines))}


PREEMPT_LINE = Picture("preempt_line", line_figure, line_summary, line_table, WORDS)


def _lost(request: dict) -> int:
    return sum(why == "preempt" for _, _, why in request["spans"])


def _add_rows(figure: go.Figure, requests: list[dict], words: Mapping[str, str]) -> None:
    for priority, name in ((0, "run"), (1, "run_less")):
        bars = [(each["label"], *span) for each in requests if each["priority"] == priority for span in each["spans"]]
        pattern = {"shape": "" if priority == 0 else ".", "bgcolor": _RUNS[priority], "fgcolor": "#10151f"}
        figure.add_trace(
            go.Bar(
                orientation="h",
                y=[label for label, *_ in bars],
                base=[first for _, first, _, _ in bars],
                x=[last - first + 1 for _, first, last, _ in bars],
                customdata=[[label, first, last] for label, first, last, _ in bars],
                hovertemplate=f"{words['hover']}<extra></extra>",
                marker={"color": _RUNS[priority], "pattern": pattern, "line": {"width": 0}},
                name=words[name],
                showlegend=bool(bars),
            ),
            row=1,
            col=1,
        )
    order = {"categoryorder": "array", "categoryarray": [each["label"] for each in requests]}
    figure.update_yaxes(row=1, col=1, **order)


def _add_marks(figure: go.Figure, requests: list[dict], color: str, words: Mapping[str, str]) -> None:
    lost = [(span[1] + 1, each["label"]) for each in requests for span in each["spans"] if span[2] == "preempt"]
    back = [(span[0], each["label"]) for each in requests for span in each["spans"][1:]]
    came = [(each["arrived"], each["label"]) for each in requests]
    kinds = (
        ("arrive", came, "line-ns-open", color),
        ("preempt", lost, "x", "#D55E00"),
        ("resume", back, "triangle-right", color),
    )
    for name, spots, symbol, ink in kinds:
        figure.add_trace(
            go.Scatter(
                x=[step for step, _ in spots],
                y=[label for _, label in spots],
                mode="markers",
                marker={"symbol": symbol, "size": 9, "color": ink, "line": {"width": 2 * (name == "arrive")}},
                name=words[name],
            ),
            row=1,
            col=1,
        )
