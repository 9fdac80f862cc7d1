"""From eager transformers to this engine: what each technique adds in tokens/s, and what it does to the answers."""

from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from lessons.figures.charts import axes, columns, finish
from lessons.figures.style import INKS, Fill, Provenance, Theme

FILLS = {  # what a bar is: in light, in dark
    "start": (Fill("start", "#667085"), Fill("start", "#98A2B3")),
    "gain": (Fill("gain", "#0072B2"), Fill("gain", "#56B4E9")),
    "loss": (Fill("loss", "#D55E00", "/"), Fill("loss", "#F0803C", "/")),
}
WORDS = {
    "stages_title": "Tokens/s, one technique after the other",
    "stages_axis": "tokens/s of all answers",
    "stages_accuracy": "against the references",
    "stages_same": "same token {percent} %",
    "stages_kl": "KL {kl}",
    "stages_transformers": "transformers, eager",
    "stages_fused_kernels": "+ fused kernels",
    "stages_in-flight_batching": "+ in-flight batching",
    "stages_CUDA_graphs": "+ CUDA graphs",
    "stages_one_step_in_flight": "+ one step in flight",
    "stages_int8_KV": "+ int8 KV",
    "stages_sentence": "{stage}: {rate} tokens/s, {times}x the stage before.",
    "stages_all": "Together {times}x.",
    "stages_heads": "stage|tokens/s|times the stage before|times the first|same token %|KL, nats",
}


def stages_figure(
    run: Mapping, provenance: Provenance, theme: Theme = "light", source: str = "", words: Mapping = WORDS
) -> go.Figure:
    """A waterfall: a bar goes from the tokens/s of the stage before to its own; accuracy stands at its right."""
    entries, figure, before = run["results"], go.Figure(), 0.0
    top = max(entry["output_throughput"] for entry in entries)
    for index, entry in enumerate(entries):
        rate = entry["output_throughput"]
        kind = "start" if not index else "gain" if rate >= before else "loss"
        _add_bar(figure, _name(entry, words), (before, rate), FILLS[kind][theme == "dark"])
        ratio = f" <b>x {entry['times_before']:.2f}</b>" if index else ""
        _note(figure, _name(entry, words), max(before, rate), f"{rate:,.0f}{ratio}", INKS[theme].text)
        _note(figure, _name(entry, words), 1.36 * top, _accuracy(entry, words), INKS[theme].dim)
        before = rate
    axes(figure, theme, words["stages_axis"], "")
    figure.update_xaxes(range=[0, 1.78 * top], tickvals=_ticks(top)).update_yaxes(autorange="reversed", automargin=True)
    finish(figure, words["stages_title"], provenance, theme, words, source)
    head = {"text": words["stages_accuracy"], "font": {"color": INKS[theme].dim, "size": 12}}
    figure.add_annotation(x=1.36 * top, y=1.0, yref="paper", yanchor="bottom", xanchor="left", showarrow=False, **head)
    return figure.update_layout(barmode="overlay", bargap=0.4)


def stages_summary(run: Mapping, words: Mapping = WORDS) -> str:
    """The waterfall in words."""
    entries = run["results"]
    parts = [
        words["stages_sentence"].format(
            stage=_name(entry, words).removeprefix("+ "),
            rate=f"{entry['output_throughput']:,.0f}",
            times=f"{entry['times_before']:.2f}",
        )
        for entry in entries[1:]
    ]
    return " ".join([*parts, words["stages_all"].format(times=f"{entries[-1]['times_first']:.1f}")])


def stages_table(run: Mapping, words: Mapping = WORDS) -> dict[str, list]:
    """One line for each stage."""
    rows = [
        (
            _name(entry, words),
            round(entry["output_throughput"], 1),
            round(entry["times_before"], 2),
            round(entry["times_first"], 2),
            entry["agreed"] and round(100 * entry["agreed"], 2),
            entry["kl"] if entry["kl"] is None else float(f"{entry['kl']:.2g}"),
        )
        for entry in run["results"]
    ]
    return columns(words["stages_heads"], rows)


def _name(entry: Mapping, words: Mapping) -> str:
    return words["stages_" + entry["stage"].replace(" ", "_")]


def _accuracy(entry: Mapping, words: Mapping) -> str:
    if entry["agreed"] is None:
        return "–"
    same = words["stages_same"].format(percent=f"{100 * entry['agreed']:.1f}")
    return f"{same} · {words['stages_kl'].format(kl=format(entry['kl'], '.1e'))}"


def _add_bar(figure: go.Figure, label: str, span: Sequence[float], fill: Fill) -> None:
    low, high = sorted(span)
    bar = go.Bar(orientation="h", y=[label], base=[low], x=[max(high - low, 0.002 * high)], marker=fill.marker())
    figure.add_trace(bar.update(showlegend=False, hovertemplate=f"{span[1]:,.0f}<extra></extra>"))


def _note(figure: go.Figure, label: str, x: float, text: str, color: str) -> None:
    place = {"x": x, "y": label, "xshift": 6, "xanchor": "left", "showarrow": False}
    figure.add_annotation(text=text, font={"color": color, "size": 12}, **place)


def _ticks(top: float) -> list[float]:
    """Round values up to the highest bar: the text beside the bars needs no axis."""
    step = 10 ** len(str(int(top / 2))) / 10
    step *= 5 if top / step > 12 else 2 if top / step > 6 else 1
    return [index * step for index in range(int(top / step) + 1)]
