"""What a scheduler sees before a step: the queue from its head, with what each request needs, and what is free."""

from collections.abc import Mapping

import plotly.graph_objects as go

from lessons.figures.style import BADGE_WORDS, INKS, Picture, Provenance, Theme, dress

SHOWN = 8  # requests of the queue that are drawn
WORDS = BADGE_WORDS | {
    "title": "Before step {step}",
    "request": "R{id}",
    "tokens": "tokens to compute",
    "needs": "{tokens} tokens, {blocks} blocks",
    "free": "free: {rows} rows, {tokens} tokens of the budget, {blocks} blocks (watermark {watermark})",
    "sentence": "{waiting} requests wait; the first needs {tokens} tokens and {blocks} blocks. {free}.",
    "empty": "Nobody waits. {free}.",
    "heads": "place|request|tokens|blocks",
}


def queue_figure(
    data: dict,
    provenance: Provenance = "Measured",
    theme: Theme = "light",
    source: str = "",
    words: Mapping[str, str] = WORDS,
) -> go.Figure:
    """One bar for each waiting request, the head on top. ``data``: a step of ``engine.workload.watched``, with
    ``block_size`` and ``watermark``."""
    figure, ink = go.Figure(), INKS[theme]
    shown = data["waiting"][:SHOWN]
    figure.add_trace(
        go.Bar(
            orientation="h",
            y=[words["request"].format(id=request) for request, _ in shown],
            x=[tokens for _, tokens in shown],
            text=[words["needs"].format(tokens=tokens, blocks=_blocks(tokens, data)) for _, tokens in shown],
            textposition="outside",
            cliponaxis=False,
            marker={
                "color": ["#E69F00" if place == 0 else "#56B4E9" for place in range(len(shown))],
                "pattern": {"shape": ["/" if place == 0 else "" for place in range(len(shown))], "solidity": 0.25},
            },
            showlegend=False,
        )
    )
    widest = max((tokens for _, tokens in shown), default=1)
    figure.update_xaxes(title=words["tokens"], range=[0, 1.6 * widest], gridcolor=ink.line, zeroline=False)
    figure.update_yaxes(autorange="reversed", fixedrange=True)
    note = {"xref": "paper", "yref": "paper", "x": 0, "y": 1, "yshift": 22, "xanchor": "left", "showarrow": False}
    figure.add_annotation(text=_free(data, words), font={"color": ink.text, "size": 13}, **note)
    dress(figure, words["title"].format(step=data["step"]), provenance, theme, source, words)
    return figure.update_layout(height=120 + 34 * max(2, len(shown)), margin={"l": 58, "r": 24, "t": 84, "b": 44})


def queue_summary(data: dict, words: Mapping[str, str] = WORDS) -> str:
    """Who is first, what it needs, what is free."""
    if not data["waiting"]:
        return words["empty"].format(free=_free(data, words))
    tokens = data["waiting"][0][1]
    first = {"tokens": tokens, "blocks": _blocks(tokens, data), "waiting": len(data["waiting"])}
    return words["sentence"].format(free=_free(data, words), **first)


def queue_table(data: dict, words: Mapping[str, str] = WORDS) -> dict[str, list]:
    """One line for each waiting request."""
    lines = [
        [place + 1, words["request"].format(id=request), tokens, _blocks(tokens, data)]
        for place, (request, tokens) in enumerate(data["waiting"])
    ]
    columns = [list(column) for column in zip(*lines, strict=True)] or [[], [], [], []]
    return dict(zip(words["heads"].split("|"), columns, strict=True))


QUEUE = Picture("queue", queue_figure, queue_summary, queue_table, WORDS)


def tokens_left(step: Mapping) -> int:
    """What decodes and half-done prompts leave of the budget."""
    return max(0, step["budget"] - step["decodes"] - sum(step["prefilling"]))


def _blocks(tokens: int, data: Mapping) -> int:
    return -(-tokens // data["block_size"])


def _free(data: Mapping, words: Mapping[str, str]) -> str:
    watermark = data["watermark"] if data["anything_runs"] else 0
    numbers = {"rows": data["rows_free"], "tokens": tokens_left(data), "blocks": data["blocks"]}
    return words["free"].format(watermark=watermark, **numbers)
