"""One answer as a strip of tokens on a clock: the prefill, then a mark for each token; below it the bytes of its KV."""

from collections.abc import Mapping
from itertools import accumulate

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from lessons.figures.style import BADGE_WORDS, INKS, ROW_STEPS, Picture, Provenance, Theme, dress

WORDS = BADGE_WORDS | {
    "title": "One answer on the clock",
    "time": "milliseconds",
    "prefill": "prefill: {n} prompt tokens at once",
    "decode": "decode: one token each",
    "kv": "KV cache, KB",
    "ttft": "TTFT {ms:,.0f} ms",
    "itl": "ITL {ms:,.1f} ms",
    "sentence": "First token after {ttft:,.0f} ms, then one every {itl:,.1f} ms; the KV cache grows to {kv:,.0f} KB.",
    "heads": "token|arrives at ms|KV KB",
}


def strip_figure(
    data: dict,
    provenance: Provenance = "Measured",
    theme: Theme = "light",
    source: str = "",
    words: Mapping[str, str] = WORDS,
) -> go.Figure:
    """Two lines on one clock. ``data``: ``cached_ms`` (one a token), ``prompt`` tokens, ``kv_bytes`` of a token."""
    times, ink = data["cached_ms"], INKS[theme]
    ends = list(accumulate(times))
    figure = make_subplots(rows=2, cols=1, shared_xaxes=True, vertical_spacing=0.1, row_heights=[0.4, 0.6])
    blocks = (("prefill", [0.0], times[:1], "prefill"), ("decode", ends[:-1], times[1:], "useful"))
    for name, base, widths, fill in blocks:
        marker = ROW_STEPS[fill].marker() | {"line": {"width": 1, "color": ink.line}}
        label = words[name].format(n=data["prompt"])
        figure.add_trace(
            go.Bar(orientation="h", y=[""] * len(widths), base=base, x=widths, marker=marker, name=label), row=1, col=1
        )
    line = {"color": "#009E73", "width": 2, "shape": "hv"}
    figure.add_trace(
        go.Scatter(x=[0, *ends], y=[0, *_kv(data)], name=words["kv"], line=line, fill="tozeroy"), row=2, col=1
    )
    note = {"yref": "y domain", "y": 1.3, "showarrow": False, "font": {"color": ink.text}}
    figure.add_annotation(x=ends[0] / 2, text=words["ttft"].format(ms=ends[0]), **note)
    figure.add_annotation(x=(ends[0] + ends[-1]) / 2, text=words["itl"].format(ms=_median(times[1:])), **note)
    figure.update_xaxes(title=words["time"], gridcolor=ink.line, zeroline=False, row=2, col=1)
    figure.update_yaxes(fixedrange=True, row=1, col=1)
    figure.update_yaxes(title=words["kv"], gridcolor=ink.line, zeroline=False, row=2, col=1)
    dress(figure, words["title"], provenance, theme, source, words)
    return figure.update_layout(
        barmode="overlay", height=380, margin={"l": 74, "r": 24, "t": 118, "b": 48}, legend={"y": 1.14}
    )


def strip_summary(data: dict, words: Mapping[str, str] = WORDS) -> str:
    """TTFT, median ITL and the final size of the KV cache."""
    times = data["cached_ms"]
    return words["sentence"].format(ttft=times[0], itl=_median(times[1:]), kv=_kv(data)[-1])


def strip_table(data: dict, words: Mapping[str, str] = WORDS) -> dict[str, list]:
    """One line for each token."""
    ends = [round(end, 1) for end in accumulate(data["cached_ms"])]
    columns = [list(range(1, len(ends) + 1)), ends, [round(kilobytes, 1) for kilobytes in _kv(data)]]
    return dict(zip(words["heads"].split("|"), columns, strict=True))


TOKEN_STRIP = Picture("token_strip", strip_figure, strip_summary, strip_table, WORDS)


def _kv(data: dict) -> list[float]:
    """KB of the KV cache when each token arrives: those of all tokens before it."""
    return [(data["prompt"] + place) * data["kv_bytes"] / 1e3 for place in range(len(data["cached_ms"]))]


def _median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]
