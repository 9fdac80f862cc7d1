"""KV quantisation: time of decode attention against context, and what a key or value takes."""

from collections.abc import Mapping

import plotly.graph_objects as go

from engine.workload.kv_curves import Line, break_even, capacity, lines
from lessons.figures.charts import axes, columns, finish
from lessons.figures.style import INKS, Fill, Provenance, Theme

MARKS = {  # format: colour in light, in dark, symbol, dash
    "bf16": ("#667085", "#B6BECB", "circle", "solid"),
    "int8": ("#0072B2", "#56B4E9", "square", "dash"),
    "fp8": ("#D55E00", "#F0803C", "diamond", "dot"),
    "int4": ("#8A6D00", "#F0E442", "star", "dashdot"),
}
PATTERNS = {"bf16": "", "int8": "/", "fp8": "\\", "int4": "x"}
WORDS = {
    "kv_time_title": "Decode attention: time against context",
    "kv_context": "context of each row, tokens",
    "kv_us": "microseconds a call",
    "kv_even": "{form} pays from {context} tokens",
    "kv_line": "{form}: {intercept} µs + {slope} µs per 1,000 tokens of context.",
    "kv_even_at": "{form} is faster from {context} tokens on.",
    "kv_even_always": "{form} is faster at every context.",
    "kv_even_never": "{form} is not faster at any context measured here.",
    "kv_time_heads": "format|context|µs|times bf16",
    "kv_capacity_title": "Bytes of a key or value, D = 128",
    "kv_of_bf16": "percent of bf16",
    "kv_capacity_sentence": "{form}: {bytes} bytes, {percent} % of bf16: {times}x the tokens.",
    "kv_capacity_heads": "format|bytes of a head|% of bf16|times the tokens|tokens per GiB, qwen3-0.6b",
}


def time_figure(
    run: Mapping, provenance: Provenance, theme: Theme = "light", source: str = "", words: Mapping = WORDS
) -> go.Figure:
    """Microseconds of one call against context: points of the run, fitted lines, and where 8 bits begin to pay."""
    figure, (where, found) = go.Figure(), lines(run)
    for line in found:
        _add_line(figure, line, theme)
    _add_break_evens(figure, found, theme, words)
    axes(figure, theme, words["kv_context"], words["kv_us"])
    title = f"{words['kv_time_title']} ({where})" if where else words["kv_time_title"]
    return finish(figure, title, provenance, theme, words, source).update_yaxes(rangemode="tozero")


def time_summary(run: Mapping, words: Mapping = WORDS) -> str:
    """Slopes, intercepts and break-even in words; empty where the run has no 8-bit format."""
    found, parts = lines(run)[1], []
    for line in found:
        if line.slope_us is not None:
            slope = f"{1000 * line.slope_us:.2f}"
            parts.append(words["kv_line"].format(form=line.form, intercept=f"{line.intercept_us:.1f}", slope=slope))
    return " ".join(parts + [_even_words(found[0], line, words) for line in found[1:]])


def time_table(run: Mapping, words: Mapping = WORDS) -> dict[str, list]:
    """One line for each format and context; the ratio where bf16 was measured at the same context."""
    found = lines(run)[1]
    plain = dict(zip(found[0].contexts, found[0].us)) if found else {}
    rows = [
        [line.form, context, round(us, 2), round(us / plain[context], 3) if context in plain else None]
        for line in found
        for context, us in zip(line.contexts, line.us)
    ]
    return columns(words["kv_time_heads"], rows)


def capacity_figure(theme: Theme = "light", words: Mapping = WORDS) -> go.Figure:
    """Bars: what a key or value of one head takes, as a share of bf16."""
    figure = go.Figure()
    for entry in capacity():
        form, percent = entry["format"], 100 * entry["of_bf16"]
        color = MARKS[form][theme == "dark"]
        label = f"{percent:.1f} % · {entry['head_bytes']} B"
        bar = go.Bar(orientation="h", y=[form], x=[percent], marker=Fill(form, color, PATTERNS[form]).marker())
        figure.add_trace(bar.update(text=label, textposition="outside", cliponaxis=False, showlegend=False))
    axes(figure, theme, words["kv_of_bf16"], "")
    figure.update_xaxes(range=[0, 135]).update_yaxes(autorange="reversed", automargin=True)
    return finish(figure, words["kv_capacity_title"], "Computed", theme, words, height=260)


def capacity_summary(words: Mapping = WORDS) -> str:
    """The bars in words."""
    sentences = []
    for entry in capacity()[1:]:
        values = {"percent": f"{100 * entry['of_bf16']:.1f}", "times": f"{entry['times']:.2f}"}
        sentences.append(
            words["kv_capacity_sentence"].format(form=entry["format"], bytes=entry["head_bytes"], **values)
        )
    return " ".join(sentences)


def capacity_table(words: Mapping = WORDS) -> dict[str, list]:
    """One line for each format."""
    rows = [
        (
            each["format"],
            each["head_bytes"],
            round(100 * each["of_bf16"], 1),
            round(each["times"], 2),
            each["tokens_per_gib"],
        )
        for each in capacity()
    ]
    return columns(words["kv_capacity_heads"], rows)


def _even_words(plain: Line, line: Line, words: Mapping) -> str:
    even = break_even(plain, line)
    if even is None:
        return words["kv_even_never"].format(form=line.form)
    return words["kv_even_at" if even else "kv_even_always"].format(form=line.form, context=f"{even:,.0f}")


def _add_break_evens(figure: go.Figure, found: list[Line], theme: Theme, words: Mapping) -> None:
    """A line for each format with a break-even within the contexts; its label below the one before."""
    ink, place = INKS[theme], 1.0
    for line in found[1:]:
        even = break_even(found[0], line)
        if not even or even > max(found[0].contexts):
            continue
        text = words["kv_even"].format(form=line.form, context=f"{even:,.0f}")
        figure.add_vline(even, line={"color": ink.dim, "dash": "dot", "width": 1.2})
        where = {"x": even, "y": place, "yref": "paper", "xanchor": "left", "yanchor": "top", "xshift": 4}
        figure.add_annotation(text=text, showarrow=False, font={"color": ink.dim, "size": 12}, **where)
        place -= 0.08


def _add_line(figure: go.Figure, line: Line, theme: Theme) -> None:
    light, dark, symbol, dash = MARKS[line.form]
    color = dark if theme == "dark" else light
    marker = {"symbol": symbol, "size": 10, "color": color}
    points = go.Scatter(x=line.contexts, y=line.us, mode="markers", name=line.form, marker=marker)
    figure.add_trace(points.update(legendgroup=line.form, hovertemplate="%{x:,}: %{y:.1f} µs<extra></extra>"))
    if line.slope_us is not None:
        ends = [0, max(line.contexts)]
        fit = go.Scatter(x=ends, y=[line.at(x) for x in ends], mode="lines", line={"color": color, "dash": dash})
        figure.add_trace(fit.update(legendgroup=line.form, showlegend=False, hoverinfo="skip"))
