"""What 8 bits do to keys and values: error by what shares a scale, and the keys of a head channel by channel."""

from collections.abc import Mapping
from itertools import pairwise

import plotly.graph_objects as go

from lessons.figures.charts import axes, columns, finish
from lessons.figures.style import INKS, Theme

PARTS = {"key_error": ("#0072B2", "#56B4E9", "circle"), "value_error": ("#D55E00", "#F0803C", "square-open")}
WORDS = {
    "kv_error_title": "Error by what shares a scale",
    "kv_error_axis": "relative error, percent",
    "kv_tensor": "whole tensor",
    "kv_head": "head",
    "kv_channel": "channel of a head",
    "kv_token_and_head": "token and head (the engine)",
    "kv_key_error": "keys",
    "kv_value_error": "values",
    "kv_error_sentence": "{form}, {granularity}: keys {keys} %, values {values} %.",
    "kv_error_verdict": "{form}: keys lose least with one scale per {keys}, values with one per {values}.",
    "kv_error_heads": "format|scale shared by|keys: error %|values: error %|worst layer %|scale bytes per 1,000",
    "kv_keys_title": "Keys by channel: layer {layer}, head {head}",
    "kv_channel_axis": "channel of the head",
    "kv_value_axis": "value of the key",
    "kv_tokens": "tokens",
    "kv_keys_sentence": "Layer {layer}, head {head}: the loudest channel reaches {spread} times the median channel.",
    "kv_keys_heads": "channel|largest magnitude",
}


def error_figure(found: Mapping, theme: Theme = "light", words: Mapping = WORDS) -> go.Figure:
    """Relative error of keys and values for each format and granularity (of ``kv_error``)."""
    figure = go.Figure()
    for part, (light, dark, symbol) in PARTS.items():
        entries = found["errors"]
        color = dark if theme == "dark" else light
        trace = go.Scatter(
            x=[100 * each[part] for each in entries],
            y=[[each["format"] for each in entries], [_granularity(each, words) for each in entries]],
            mode="markers",
            name=words[f"kv_{part}"],
            marker={"symbol": symbol, "size": 12, "color": color, "line": {"width": 1.5, "color": color}},
            hovertemplate="%{x:.2f} %<extra></extra>",
        )
        figure.add_trace(trace)
    axes(figure, theme, words["kv_error_axis"], "")
    figure.update_yaxes(autorange="reversed", automargin=True, gridcolor=INKS[theme].line)
    figure.update_xaxes(rangemode="tozero")
    return finish(figure, words["kv_error_title"], "Measured", theme, words, found["model"], height=420)


def error_summary(found: Mapping, words: Mapping = WORDS) -> str:
    """The errors in words."""
    sentences = []
    for each in found["errors"]:
        values = {"keys": f"{100 * each['key_error']:.2f}", "values": f"{100 * each['value_error']:.2f}"}
        about = {"form": each["format"], "granularity": _granularity(each, words)}
        sentences.append(words["kv_error_sentence"].format(**about, **values))
    return " ".join(sentences)


def error_verdict(found: Mapping, words: Mapping = WORDS) -> str:
    """The granularity with the least error, for the keys and for the values of each format."""
    parts = []
    for form in dict.fromkeys(each["format"] for each in found["errors"]):
        own = [each for each in found["errors"] if each["format"] == form]
        keys, values = (_granularity(min(own, key=lambda each: each[name]), words) for name in PARTS)
        parts.append(words["kv_error_verdict"].format(form=form, keys=keys, values=values))
    return " ".join(parts)


def error_table(found: Mapping, words: Mapping = WORDS) -> dict[str, list]:
    """One line for each format and granularity."""
    rows = [
        [each["format"], _granularity(each, words)]
        + [round(100 * each[name], 3) for name in ("key_error", "value_error", "worst")]
        + [round(1000 * each["scale_bytes"], 2)]
        for each in found["errors"]
    ]
    return columns(words["kv_error_heads"], rows)


def keys_figure(found: Mapping, theme: Theme = "light", words: Mapping = WORDS) -> go.Figure:
    """How the keys of one head are spread in each channel: the wider a column, the coarser a scale that all share."""
    keys, ink = found["keys"], INKS[theme]
    edges = keys["edges"]
    middles = [(low + high) / 2 for low, high in pairwise(edges)]
    counts = [list(row) for row in zip(*keys["counts"])]
    ramp = [[0, "rgba(0,114,178,0)"], [0.001, "#cfe3f1"], [1, "#003f66"]]
    if theme == "dark":
        ramp = [[0, "rgba(86,180,233,0)"], [0.001, "#16324a"], [1, "#9fdcff"]]
    bar = {"title": {"text": words["kv_tokens"], "font": {"color": ink.dim}}, "thickness": 10, "outlinewidth": 0}
    hover = "%{x} · %{y:.2f} · %{z}<extra></extra>"
    figure = go.Figure(go.Heatmap(z=counts, y=middles, colorscale=ramp, colorbar=bar, hovertemplate=hover))
    axes(figure, theme, words["kv_channel_axis"], words["kv_value_axis"])
    title = words["kv_keys_title"].format(layer=keys["layer"], head=keys["head"])
    return finish(figure, title, "Measured", theme, words, found["model"], height=420)


def keys_summary(found: Mapping, words: Mapping = WORDS) -> str:
    """The histogram in words."""
    keys = found["keys"]
    return words["kv_keys_sentence"].format(layer=keys["layer"], head=keys["head"], spread=f"{keys['spread']:.1f}")


def keys_table(found: Mapping, words: Mapping = WORDS) -> dict[str, list]:
    """The largest magnitude of each channel."""
    return columns(words["kv_keys_heads"], [[i, round(each, 3)] for i, each in enumerate(found["keys"]["loudest"])])


def _granularity(entry: Mapping, words: Mapping) -> str:
    return words["kv_" + entry["granularity"].replace(" ", "_")]
