"""A run, step by step: tokens by kind under the budget, and below them why nobody else entered."""

from collections.abc import Mapping

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from lessons.figures.style import BADGE_WORDS, INKS, ROW_STEPS, Picture, Provenance, Theme, dress

REASONS = {  # reason: colour, pattern
    "token_budget": ("#56B4E9", "/"),
    "max_num_seqs": ("#E69F00", "x"),
    "no_free_blocks": ("#D55E00", "\\"),
    "watermark": ("#CC79A7", "."),
    "preempted_this_step": ("#000000", "+"),
    "none": ("#D9DEE7", ""),
}
WORDS = BADGE_WORDS | {
    "title": "Tokens of each step, and what stopped the next request",
    "step": "step",
    "tokens": "tokens",
    "decode": "decode",
    "chunk": "prompts",
    "budget": "budget",
    "token_budget": "no tokens left",
    "max_num_seqs": "no row",
    "no_free_blocks": "no blocks",
    "watermark": "watermark",
    "preempted_this_step": "a preemption",
    "none": "nobody waits",
    "other": "another reason",
    "sentence": "{steps} steps. {reasons}.",
    "part": "{count} with {reason}",
    "heads": "step|decode tokens|prompt tokens|budget|admitted|what stopped the next",
}


def decisions_figure(
    data: dict,
    provenance: Provenance = "Measured",
    theme: Theme = "light",
    source: str = "",
    words: Mapping[str, str] = WORDS,
) -> go.Figure:
    """Stacked tokens above, reasons below, on one axis of steps. ``data["steps"]``: of ``engine.workload.watched``."""
    steps, ink = data["steps"], INKS[theme]
    figure = make_subplots(rows=2, cols=1, shared_xaxes=True, vertical_spacing=0.06, row_heights=[0.78, 0.22])
    numbers = [step["step"] for step in steps]
    for name, fill, values in (
        ("decode", "useful", [step["decodes"] for step in steps]),
        ("chunk", "prefill", [sum(step["chunk_tokens"]) for step in steps]),
    ):
        marker = ROW_STEPS[fill].marker()
        figure.add_trace(go.Bar(x=numbers, y=values, name=words[name], marker=marker), row=1, col=1)
    budget = {"color": ink.text, "dash": "dot", "width": 1.5}
    level = [step["budget"] for step in steps]
    figure.add_trace(go.Scatter(x=numbers, y=level, mode="lines", name=words["budget"], line=budget), row=1, col=1)
    for reason in dict.fromkeys(_reason(step) for step in steps):
        color, pattern = REASONS.get(reason, ("#999999", "-"))
        places = [step["step"] for step in steps if _reason(step) == reason]
        marker = {"color": color, "pattern": {"shape": pattern, "solidity": 0.3}}
        trace = go.Bar(x=places, y=[1] * len(places), name=words.get(reason, words["other"]), marker=marker)
        figure.add_trace(trace, row=2, col=1)
    figure.update_xaxes(gridcolor=ink.line, zeroline=False)
    figure.update_xaxes(title=words["step"], row=2, col=1)
    figure.update_yaxes(title=words["tokens"], gridcolor=ink.line, zeroline=False, row=1, col=1)
    figure.update_yaxes(visible=False, range=[0, 1], fixedrange=True, row=2, col=1)
    dress(figure, words["title"], provenance, theme, source, words)
    return figure.update_layout(
        barmode="stack",
        bargap=0.06,
        height=430,
        margin={"l": 58, "r": 24, "t": 66, "b": 110},
        legend={"y": -0.3, "yanchor": "top"},
    )


def decisions_summary(data: dict, words: Mapping[str, str] = WORDS) -> str:
    """How many steps ended with which reason."""
    counts: dict[str, int] = {}
    for step in data["steps"]:
        counts[_reason(step)] = counts.get(_reason(step), 0) + 1
    parts = [
        words["part"].format(count=count, reason=words.get(reason, words["other"])) for reason, count in counts.items()
    ]
    return words["sentence"].format(steps=len(data["steps"]), reasons=", ".join(parts))


def decisions_table(data: dict, words: Mapping[str, str] = WORDS) -> dict[str, list]:
    """One line for each step."""
    lines = [
        [
            step["step"],
            step["decodes"],
            sum(step["chunk_tokens"]),
            step["budget"],
            " ".join(f"R{request}" for request in step["admitted"]),
            words.get(_reason(step), words["other"]),
        ]
        for step in data["steps"]
    ]
    return dict(zip(words["heads"].split("|"), map(list, zip(*lines, strict=True)), strict=True))


DECISIONS = Picture("decisions", decisions_figure, decisions_summary, decisions_table, WORDS)


def _reason(step: Mapping) -> str:
    return step["reason"]
