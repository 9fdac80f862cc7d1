"""Divergence of the next token's distribution, place by place, and where greedy answers first part."""

from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from lessons.figures.capacity import KV_LOOKS
from lessons.figures.style import BADGE_WORDS, INKS, Picture, Provenance, Theme, dress

FLOOR = 1e-9  # nats: what fp32 can tell from 0
WORDS = BADGE_WORDS | {
    "title": "Divergence from the plain KV cache",
    "place": "token of the answer",
    "kl": "KL in nats, mean of texts",
    "first": "an answer parts here",
    "sentence": "{name}: mean KL {kl:.1e} nats; {parted} of {texts} answers part, after {same:.0f} tokens on average.",
    "heads": "KV dtype|token|KL in nats",
}


def drift_figure(
    data: dict,
    provenance: Provenance = "Measured",
    theme: Theme = "light",
    source: str = "",
    words: Mapping[str, str] = WORDS,
) -> go.Figure:
    """KL against place, in logarithms. ``data``: of ``engine.workload.kv_drift``."""
    figure, ink = go.Figure(), INKS[theme]
    for name, found in data["formats"].items():
        color, symbol, dash = KV_LOOKS[name]
        places = list(range(1, len(found["kl_at"]) + 1))
        pen = {"color": color, "dash": dash, "width": 1.6}
        figure.add_trace(go.Scatter(x=places, y=_shown(found["kl_at"]), mode="lines", name=name, line=pen))
        parted = [place for place in found["first_divergence"] if place is not None]
        if parted:
            marker = {"color": color, "symbol": symbol, "size": 11, "line": {"color": ink.text, "width": 1}}
            figure.add_trace(
                go.Scatter(
                    x=[place + 1 for place in parted],
                    y=[_shown(found["kl_at"])[place] for place in parted],
                    mode="markers",
                    name=words["first"],
                    marker=marker,
                    showlegend=not any(trace.mode == "markers" for trace in figure.data),
                )
            )
    figure.update_xaxes(title=words["place"], gridcolor=ink.line, zeroline=False)
    figure.update_yaxes(
        title=words["kl"], type="log", dtick=1, exponentformat="power", gridcolor=ink.line, zeroline=False
    )
    dress(figure, words["title"], provenance, theme, source, words)
    return figure.update_layout(height=400, margin={"l": 72, "r": 16, "t": 96, "b": 50})


def drift_summary(data: dict, words: Mapping[str, str] = WORDS) -> str:
    """Each KV dtype: its divergence, and how many answers part."""
    return " ".join(
        words["sentence"].format(
            name=name,
            kl=found["kl"],
            parted=sum(place is not None for place in found["first_divergence"]),
            texts=found["texts"],
            same=found["same_until"],
        )
        for name, found in data["formats"].items()
    )


def drift_table(data: dict, words: Mapping[str, str] = WORDS) -> dict[str, list]:
    """One line for each place and KV dtype."""
    rows = [
        (name, place + 1, f"{value:.2e}")
        for name, found in data["formats"].items()
        for place, value in enumerate(found["kl_at"])
    ]
    return dict(zip(words["heads"].split("|"), map(list, zip(*rows)), strict=True))


DRIFT = Picture("drift", drift_figure, drift_summary, drift_table, WORDS)


def _shown(values: Sequence[float]) -> list[float]:
    return [max(value, FLOOR) for value in values]
