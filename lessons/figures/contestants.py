"""Other contestants of a race beside its in-flight run: tokens/s as bars, by who they are."""

from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from lessons.figures.charts import axes, columns, finish
from lessons.figures.style import INKS, Fill, Provenance, Theme

FILLS = {  # kind: in light, in dark
    "ours": (Fill("ours", "#0072B2"), Fill("ours", "#56B4E9")),
    "transformers": (Fill("transformers", "#667085", "/"), Fill("transformers", "#B6BECB", "/")),
    "server": (Fill("server", "#D55E00", "x"), Fill("server", "#F0803C", "x")),
}
WORDS = {
    "more_title": "The same requests, other contestants",
    "more_axis": "tokens/s of all answers",
    "more_in-flight": "in-flight, as in the race",
    "more_max-utilization": "MAX_UTILIZATION, half the pool",
    "more_guaranteed-no-evict": "GUARANTEED_NO_EVICT, half the pool",
    "more_chunked": "prompts in small chunks",
    "more_whole": "prompts whole",
    "more_transformers": "transformers generate, PyTorch",
    "more_sentence": "{name}: {rate} tokens/s, {times}x in-flight.",
    "more_capped": "{name} was stopped at its time limit.",
    "more_failed": "{name}: {n} requests failed.",
    "more_heads": "contestant|tokens/s|times in-flight|TTFT p50 ms|ITL p99 ms|preemptions",
}


def contestants_figure(
    lines: Sequence[Mapping], provenance: Provenance, theme: Theme = "light", source: str = "", words: Mapping = WORDS
) -> go.Figure:
    """A bar for each of ``lines`` (``engine.workload.contestants.compared``), and a line at the race's own run."""
    figure = go.Figure()
    for line in lines:
        text = f"{line['output_throughput']:,.0f}  <b>x {line['times']:.2f}</b>"
        marker = FILLS[line["kind"]][theme == "dark"].marker()
        bar = go.Bar(orientation="h", y=[name_of(line, words)], x=[line["output_throughput"]], marker=marker, text=text)
        figure.add_trace(bar.update(textposition="outside", cliponaxis=False, showlegend=False))
    own = next(line["output_throughput"] for line in lines if line["name"] == "in-flight")
    figure.add_vline(own, line={"color": INKS[theme].dim, "dash": "dot", "width": 1.2})
    axes(figure, theme, words["more_axis"], "")
    figure.update_xaxes(range=[0, 1.25 * lines[0]["output_throughput"]])
    figure.update_yaxes(autorange="reversed", automargin=True)
    return finish(figure, words["more_title"], provenance, theme, words, source, 170 + 42 * len(lines))


def contestants_summary(lines: Sequence[Mapping], words: Mapping = WORDS) -> str:
    """The bars in words, and who did not finish."""
    parts = []
    for line in lines:
        name = name_of(line, words)
        if line["name"] != "in-flight":
            rate = f"{line['output_throughput']:,.0f}"
            parts.append(words["more_sentence"].format(name=name, rate=rate, times=f"{line['times']:.2f}"))
        if line["capped"]:
            parts.append(words["more_capped"].format(name=name))
        if line["failed"]:
            parts.append(words["more_failed"].format(name=name, n=line["failed"]))
    return " ".join(parts)


def contestants_table(lines: Sequence[Mapping], words: Mapping = WORDS) -> dict[str, list]:
    """One line for each; None where nobody measured it."""
    rows = [
        (
            name_of(line, words),
            round(line["output_throughput"], 1),
            round(line["times"], 3),
            _rounded(line["median_ttft_ms"]),
            _rounded(line["p99_itl_ms"]),
            line["preemptions"],
        )
        for line in lines
    ]
    return columns(words["more_heads"], rows)


def name_of(line: Mapping, words: Mapping = WORDS) -> str:
    """What a contestant is called: a server by its URL."""
    return line["name"] if line["kind"] == "server" else words[f"more_{line['name']}"]


def _rounded(value: float | None) -> float | None:
    return value if value is None else round(value, 2)
