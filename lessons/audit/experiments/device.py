"""What only a GPU can show: copies, streams, graphs, utilisation and number formats."""

from collections.abc import Mapping

from lessons.audit.finding import Found, found
from lessons.audit.registry import experiment


@experiment("bytes / seconds from host to device", "copies")
def copies(copies: Mapping) -> Found:
    """S0-09, S0-11."""
    ratio = copies["pinned"] / copies["pageable"]
    numbers = {name: (copies[name], "B/s") for name in ("pageable", "pinned")}
    return found(ratio > 1.1, **numbers, ratio=(ratio, "x"), size=(copies["bytes"], "B"))


@experiment("copy and products of equal length: both on one stream, and on two with an event", "copies")
def copy_overlap(copies: Mapping) -> Found:
    """S0-10."""
    one, two = copies["one_stream_s"], copies["two_streams_s"]
    return found(
        "fails" if two < 0.9 * one else "silent", one_stream=(one, "s"), two_streams=(two, "s"), saved=(one / two, "x")
    )


@experiment("median decode step with eager launches / in a graph; seconds and MB of the capture", "graphs")
def graphs(graphs: Mapping) -> Found:
    """S0-59, S0-61."""
    first, last = graphs["entries"][0], graphs["entries"][-1]
    gains = [each["eager_s"] / each["graph_s"] for each in (first, last)]
    return found(
        gains[0] > 1.1,
        one_row=(gains[0], "x"),
        most_rows=(gains[1], "x"),
        graphs=graphs["graphs"],
        capture=(graphs["capture_s"], "s"),
        memory=(graphs["capture_mb"] * 1e6, "B"),
        eager_steps=graphs["eager_steps"],
    )


@experiment("NVML's utilisation while one kernel on one number repeats; bytes it moves / bandwidth", "utilisation")
def utilisation(utilisation: Mapping) -> Found:
    """S0-06, S4-32."""
    shown, used = utilisation["utilisation"], utilisation["of_bandwidth"]
    return found(
        "fails" if shown > 0.8 and used < 0.01 else "silent", shown=(shown, "share"), bandwidth=(used, "share")
    )


@experiment("compute capability of the card against the lowest that has the format", "formats")
def dtypes(formats: Mapping) -> Found:
    """S4-08."""
    has = formats["formats"]
    major, minor = formats["capability"]
    numbers = {name: float(value) for name, value in has.items()}
    return found(all(has.values()), capability=major + minor / 10, **numbers)
