"""Where every row-step went: one band of rows for each scheduler on a common clock."""

from collections.abc import Mapping

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from lessons.figures.style import (
    BADGE_WORDS,
    INKS,
    ROW_STEPS,
    SCHEDULER_WORDS,
    SCHEDULERS,
    Picture,
    Provenance,
    Theme,
    dress,
)

_KINDS = ("useful", "padded", "late", "idle")  # they add up to rows x steps
WORDS = (
    BADGE_WORDS
    | SCHEDULER_WORDS
    | {f"{name}_how": how for name, (_, how) in SCHEDULERS.items()}
    | {f"kind_{kind}": fill.label for kind, fill in ROW_STEPS.items()}
    | {
        "title": "Where every row-step went",
        "seconds": "seconds",
        "hover": "row %{y}, request %{customdata[0]}<br>%{customdata[1]:.3f} to %{customdata[2]:.3f} s",
        "useful_share": "useful row-steps {share:.0f} %",
        "done_at": "done at {s:.2f} s",
        "tps": "tok/s",
        "sentence": "{name}: {speed:,.0f} tok/s, {share:.0f} % of row-steps useful, done at {s:.2f} s.",
        "heads": "scheduler|output tok/s|seconds|useful row-steps|padded row-steps|late row-steps|idle row-steps"
        "|useful %",
    }
)


def lanes_figure(
    results: dict,
    provenance: Provenance = "Measured",
    theme: Theme = "light",
    source: str = "",
    words: Mapping[str, str] = WORDS,
) -> go.Figure:
    """The lanes of each scheduler in ``results["schedulers"]`` of ``bench race``, one band each, same seconds.

    Segments carry kind, start, end and request; kind is told by colour and pattern.
    """
    runs = _ordered(results)
    in_legend: set[str] = set()
    shortest_idle = 0.004 * max(run["duration_s"] for _, run in runs)
    figure = make_subplots(rows=len(runs), cols=1, shared_xaxes=True, vertical_spacing=0.05)
    for position, (name, run) in enumerate(runs, start=1):
        _add_band(figure, position, run["lanes"], shortest_idle, in_legend, words)
        _label_band(figure, position, name, run, theme, words)
    ink = INKS[theme]
    figure.update_yaxes(visible=False, autorange="reversed", fixedrange=True)
    figure.update_xaxes(showgrid=False, zeroline=False, range=[0, 1.02 * max(r["duration_s"] for _, r in runs)])
    figure.update_xaxes(title={"text": words["seconds"], "font": {"color": ink.dim}}, row=len(runs), col=1)
    dress(figure, words["title"], provenance, theme, source, words)
    figure.update_layout(
        barmode="overlay", bargap=0.12, height=92 * len(runs) + 120, margin={"l": 186, "r": 190, "t": 84, "b": 44}
    )
    return figure


def lanes_summary(results: dict, words: Mapping[str, str] = WORDS) -> str:
    """The figure in words: one sentence for each scheduler."""
    return " ".join(_sentence(name, run, words) for name, run in _ordered(results))


def lanes_table(results: dict, words: Mapping[str, str] = WORDS) -> dict[str, list]:
    """The figure as columns: row-steps by kind, tokens/s and duration of each scheduler."""
    lines = [
        [
            words[name],
            round(run["output_throughput"], 1),
            round(run["duration_s"], 3),
            *(run["row_steps"][kind] for kind in _KINDS),
            round(100 * _useful_share(run), 1),
        ]
        for name, run in _ordered(results)
    ]
    return {head: list(column) for head, column in zip(words["heads"].split("|"), zip(*lines))}


LANES = Picture("lanes", lanes_figure, lanes_summary, lanes_table, WORDS)


def _ordered(results: dict) -> list[tuple[str, dict]]:
    return [(name, results["schedulers"][name]) for name in SCHEDULERS if name in results["schedulers"]]


def _useful_share(run: dict) -> float:
    steps = run["row_steps"]
    return steps["useful"] / max(1, sum(steps[kind] for kind in _KINDS))


def _sentence(name: str, run: dict, words: Mapping[str, str]) -> str:
    numbers = {"speed": run["output_throughput"], "share": 100 * _useful_share(run), "s": run["duration_s"]}
    return words["sentence"].format(name=words[name], **numbers)


def _add_band(
    figure: go.Figure,
    position: int,
    lanes: list[list],
    shortest_idle: float,
    in_legend: set[str],
    words: Mapping[str, str],
) -> None:
    for kind, fill in ROW_STEPS.items():
        segments = [(row, *segment[1:]) for row, lane in enumerate(lanes) for segment in lane if segment[0] == kind]
        if kind == "idle":  # slivers between two steps would only show as outlines
            segments = [segment for segment in segments if segment[2] - segment[1] > shortest_idle]
        bar = go.Bar(
            orientation="h",
            y=[row for row, *_ in segments],
            base=[start for _, start, _, _ in segments],
            x=[end - start for _, start, end, _ in segments],
            customdata=[[request, start, end] for _, start, end, request in segments],
            marker=fill.marker(),
            name=words[f"kind_{kind}"],
            legendgroup=kind,
            showlegend=bool(segments) and kind not in in_legend,
            hovertemplate=f"{words[f'kind_{kind}']}<br>{words['hover']}<extra></extra>",
        )
        figure.add_trace(bar, row=position, col=1)
        in_legend |= {kind} if segments else set()


def _label_band(figure: go.Figure, position: int, name: str, run: dict, theme: Theme, words: Mapping[str, str]) -> None:
    ink = INKS[theme]
    axis = "" if position == 1 else str(position)
    middle = {"yref": f"y{axis} domain", "xref": "paper", "y": 0.5, "yanchor": "middle", "showarrow": False}
    left = f'<b>{words[name]}</b><br><span style="color:{ink.dim};font-size:11px">{words[f"{name}_how"]}</span>'
    figure.add_annotation(text=left, x=0, xshift=-176, xanchor="left", align="left", **middle)
    share = words["useful_share"].format(share=100 * _useful_share(run))
    done = words["done_at"].format(s=run["duration_s"])
    speed = f'<span style="font-size:22px"><b>{run["output_throughput"]:,.0f}</b></span> {words["tps"]}'
    right = f'{speed}<br><span style="color:{ink.dim};font-size:11px">{share}<br>{done}</span>'
    figure.add_annotation(text=right, x=1, xshift=16, xanchor="left", align="left", **middle)
    figure.add_vline(run["duration_s"], line={"color": ink.text, "width": 1.2}, row=position, col=1)
