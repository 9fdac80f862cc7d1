"""Two views of the same roofline: rate against operations per byte, and time against bytes. Three roofs in all.

A solid mark is a kernel of the engine, a hollow one a peer at the same work. A kernel is told by colour and shape.
"""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence

import plotly.graph_objects as go

from engine.workload.kernel_ledger import Ceilings, Dot, best_peer, by_kernel, ceilings, dots
from lessons.figures.style import INKS, Provenance, Theme, dress

MARKS = {  # kernel: colour in light, in dark, symbol
    "add_rmsnorm": ("#0072B2", "#56B4E9", "circle"),
    "silu_mul": ("#D55E00", "#F0803C", "square"),
    "rope_write_kv": ("#009E73", "#2CC295", "diamond"),
    "decode": ("#A6508A", "#E0A0C6", "triangle-up"),
    "prefill": ("#8A6D00", "#F0E442", "star"),
    "linear": ("#5B52B8", "#A9A2F2", "pentagon"),
    "quant": ("#B34700", "#FFB380", "cross"),
    "sample": ("#667085", "#B6BECB", "hexagon"),
}
WORDS = {
    "roof_title": "Rate against operations per byte",
    "size_title": "Time against bytes",
    "intensity": "operations per byte",
    "rate": "operations per second",
    "bytes": "bytes a call must move",
    "time": "microseconds a call",
    "bandwidth": "bandwidth",
    "compute": "compute",
    "launch": "launch",
    "launch_of": "launch floor of a call of {size}",
    "peers": "hollow: a peer",
    "of_limit": "of the limit",
    "none": "No kernel of this run has a known formula.",
    "sentence": "{count} kernels and shapes; launch binds {launch}, bandwidth {bandwidth}, compute {compute}.",
    "best": "Closest to its limit: {kernel}, {shape}, {share} %. Furthest: {far}, {far_shape}, {far_share} %.",
    "heads": "kernel|shape|µs|GB/s|TFLOP/s|bound by|floor µs|% of limit|fastest peer|µs|times ours|max rel. error",
}


def roofline_figure(
    run: Mapping,
    provenance: Provenance = "Measured",
    theme: Theme = "light",
    source: str = "",
    words: Mapping[str, str] = WORDS,
) -> go.Figure:
    """FLOP/s against FLOP/byte of a ``bench kernels`` document, under bandwidth, matmul peak and the launch floor.

    What a launch allows depends on the size of a call; its roof is drawn for a typical call that launch binds.
    """
    found, roof, figure = dots(run), ceilings(run), go.Figure()
    if found:
        low, high = _span([dot.work.intensity for dot in found] + [roof.flops / roof.bandwidth])
        _add_roofs(figure, found, roof, (low, high), theme, words)
        _add_marks(figure, found, theme, words, lambda dot, us: (dot.work.intensity, dot.flops_per_s(us)))
        figure.update_xaxes(range=[math.log10(low), math.log10(high)])
    _dress_axes(figure, theme, (words["intensity"], "{:g}".format), (words["rate"], _flops))
    return _finish(figure, words["roof_title"], provenance, theme, source, words)


def size_figure(
    run: Mapping,
    provenance: Provenance = "Measured",
    theme: Theme = "light",
    source: str = "",
    words: Mapping[str, str] = WORDS,
) -> go.Figure:
    """Microseconds against bytes: below some size a call costs its launch, whatever it moves."""
    found, roof, figure = dots(run), ceilings(run), go.Figure()
    if found:
        low, high = _span([dot.work.bytes for dot in found])
        sizes = _steps(low, high)
        _add_line(figure, sizes, [size / roof.bandwidth * 1e6 for size in sizes], words["bandwidth"], "solid", theme)
        if roof.launch_s:
            _add_line(figure, sizes, [roof.launch_s * 1e6] * len(sizes), words["launch"], "dash", theme)
        _add_marks(figure, found, theme, words, lambda dot, us: (dot.work.bytes, us))
        times = [dot.us for dot in found] + [us for dot in found for us in dot.peers.values()]
        lowest, highest = _span([*times, max(roof.launch_s * 1e6, min(times) / 3)])
        figure.update_xaxes(range=[math.log10(low), math.log10(high)])
        figure.update_yaxes(range=[math.log10(lowest), math.log10(highest)])
    _dress_axes(figure, theme, (words["bytes"], _bytes), (words["time"], _time))
    _finish(figure, words["size_title"], provenance, theme, source, words)
    return figure.update_layout(showlegend=False)


def roofline_summary(run: Mapping, words: Mapping[str, str] = WORDS) -> str:
    """Both figures in words."""
    found = dots(run)
    if not found:
        return words["none"]
    bound = {name: sum(dot.binds == name for dot in found) for name in ("launch", "bandwidth", "compute")}
    ranked = sorted(found, key=lambda dot: dot.of_limit)
    near, far = ranked[-1], ranked[0]
    best = {"kernel": near.kernel, "shape": near.shape, "share": f"{100 * near.of_limit:.0f}"}
    worst = {"far": far.kernel, "far_shape": far.shape, "far_share": f"{100 * far.of_limit:.0f}"}
    return words["sentence"].format(count=len(found), **bound) + " " + words["best"].format(**best, **worst)


def roofline_table(run: Mapping, words: Mapping[str, str] = WORDS) -> dict[str, list]:
    """Column -> values, one line for each kernel and shape, in the order of the run."""
    lines = [_line(dot, words) for dot in dots(run)]
    heads = words["heads"].split("|")
    heads[9] += " "  # the peer's microseconds: a table needs distinct names
    return {head: [line[at] for line in lines] for at, head in enumerate(heads)}


def _line(dot: Dot, words: Mapping[str, str]) -> list:
    peer, us = best_peer(dot.peers) or (None, None)
    return [
        dot.kernel,
        dot.shape,
        round(dot.us, 2),
        float(f"{dot.work.bytes / dot.us / 1e3:.3g}"),
        float(f"{dot.work.flops / dot.us / 1e6:.3g}"),
        words[dot.binds],
        round(dot.floors[dot.binds], 2),
        round(100 * dot.of_limit, 1),
        peer,
        us and round(us, 2),
        us and round(us / dot.us, 2),
        round(dot.error, 5),
    ]


def _add_roofs(
    figure: go.Figure,
    found: Sequence[Dot],
    roof: Ceilings,
    span: tuple[float, float],
    theme: Theme,
    words: Mapping[str, str],
) -> None:
    ridge = roof.flops / roof.bandwidth
    slope, flat = _steps(span[0], ridge), _steps(ridge, span[1])
    _add_line(figure, slope, [x * roof.bandwidth for x in slope], words["bandwidth"], "solid", theme)
    _add_line(figure, flat, [roof.flops] * len(flat), words["compute"], "dot", theme)
    if roof.launch_s:
        size = _typical([dot for dot in found if dot.binds == "launch"] or found)
        rate = size / roof.launch_s
        inside = [x for x in _steps(*span) if x * rate <= roof.flops]
        label = words["launch_of"].format(size=quantity(size, "B"))
        _add_line(figure, inside, [x * rate for x in inside], label, "dash", theme)


def _typical(found: Sequence[Dot]) -> float:
    """The power of ten below the median of the bytes of a call."""
    return 10.0 ** math.floor(math.log10(statistics.median(dot.work.bytes for dot in found)))


def _add_line(figure: go.Figure, x: list, y: list, name: str, dash: str, theme: Theme) -> None:
    line = {"color": INKS[theme].dim, "width": 2, "dash": dash}
    figure.add_trace(go.Scatter(x=x, y=y, mode="lines", name=name, line=line, hovertemplate=f"{name}<extra></extra>"))


Place = Callable[[Dot, float], tuple[float, float]]  # where a dot stands that took so many microseconds


def _add_marks(figure: go.Figure, found: Sequence[Dot], theme: Theme, words: Mapping, place: Place) -> None:
    for kernel, group in by_kernel(found).items():
        light, dark, symbol = MARKS.get(kernel, MARKS["sample"])
        color = light if theme == "light" else dark
        peers = [(dot, name, us) for dot in group for name, us in dot.peers.items()]
        if peers:
            x, y = zip(*(place(dot, us) for dot, _, us in peers))
            hover = [f"{name}: {dot.kernel}, {dot.shape}<br>{us:.2f} µs" for dot, name, us in peers]
            _add_symbols(figure, x, y, f"{symbol}-open", color, hover, "", 8)
        x, y = zip(*(place(dot, dot.us) for dot in group))
        hover = [_hover(dot, words) for dot in group]
        _add_symbols(figure, x, y, symbol, color, hover, kernel, 11)
    hollow = {"symbol": "circle-open", "color": INKS[theme].dim, "size": 8}
    figure.add_trace(go.Scatter(x=[None], y=[None], mode="markers", name=words["peers"], marker=hollow))


def _add_symbols(
    figure: go.Figure, x: Sequence, y: Sequence, symbol: str, color: str, hover: list[str], name: str, size: int
) -> None:
    marker = {"symbol": symbol, "color": color, "size": size, "line": {"width": 1.4, "color": color}}
    trace = go.Scatter(x=x, y=y, mode="markers", marker=marker, name=name, showlegend=bool(name), text=hover)
    figure.add_trace(trace.update(hovertemplate="%{text}<extra></extra>"))


def _hover(dot: Dot, words: Mapping[str, str]) -> str:
    share = f"{100 * dot.of_limit:.0f} % {words['of_limit']} ({words[dot.binds]})"
    rate = f"{dot.us:.2f} µs, {quantity(dot.work.bytes / dot.us * 1e6, 'B/s')}"
    return f"<b>{dot.kernel}</b>, {dot.shape}<br>{rate}, {quantity(dot.flops_per_s(dot.us), 'FLOP/s')}<br>{share}"


def _span(values: Sequence[float]) -> tuple[float, float]:
    """A little more than the values."""
    return min(values) / 2.2, max(values) * 2.2


def _steps(low: float, high: float) -> list[float]:
    """30 points at equal ratios: a line on two logarithmic axes that can be pointed at."""
    return [low * (high / low) ** (at / 29) for at in range(30)]


def quantity(value: float, unit: str) -> str:
    """A number with its prefix: ``4.4 TB/s``."""
    for prefix, size in (("P", 1e15), ("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= size:
            return f"{value / size:.3g} {prefix}{unit}"
    return f"{value:.3g} {unit}"


def _bytes(value: float) -> str:
    return quantity(value, "B")


def _flops(value: float) -> str:
    return quantity(value, "FLOP/s")


def _time(us: float) -> str:
    return f"{us:g} µs" if us < 1e3 else f"{us / 1e3:g} ms" if us < 1e6 else f"{us / 1e6:g} s"


Axis = tuple[str, Callable[[float], str]]  # title, and how a tick is written


def _dress_axes(figure: go.Figure, theme: Theme, x: Axis, y: Axis) -> None:
    decades = [10.0**power for power in range(-3, 19)]
    for update, (title, write) in ((figure.update_xaxes, x), (figure.update_yaxes, y)):
        update(
            type="log",
            title={"text": title, "font": {"color": INKS[theme].dim, "size": 12}},
            tickvals=decades,
            ticktext=[write(each) for each in decades],
            gridcolor=INKS[theme].line,
            zeroline=False,
            automargin=True,
        )


def _finish(
    figure: go.Figure, title: str, provenance: Provenance, theme: Theme, source: str, words: Mapping[str, str]
) -> go.Figure:
    dress(figure, title, provenance, theme, source)
    figure.layout.annotations[-1].text = words.get(provenance, provenance) + (f": {source}" if source else "")
    legend = {"orientation": "v", "y": 1, "yanchor": "top", "x": 1.01, "font": {"color": INKS[theme].dim, "size": 12}}
    return figure.update_layout(height=440, margin={"l": 12, "r": 16, "t": 62, "b": 44}, legend=legend)
