"""A finding: numbers with units, where they come from, and whether the claim holds by them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Provenance = Literal["Measured", "Computed", "Simulated", "Recorded"]
Outcome = Literal["holds", "fails", "partly", "silent"]  # silent: these numbers do not decide it

Number = tuple[float, str]  # value and unit: "", x, share, s, B, B/s, tok, tok/s, FLOP/B, points


@dataclass(frozen=True, slots=True)
class Found:
    """What an experiment answers. ``sentence`` names its words when it has several (an empty one: its own id)."""

    outcome: Outcome
    numbers: Mapping[str, Number]
    sentence: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """``Found`` with its origin: provenance, the formula or the document, and the device and date behind it."""

    experiment: str
    outcome: Outcome
    numbers: Mapping[str, Number]
    sentence: str
    provenance: Provenance
    formula: str
    where: str = ""


def found(outcome: Outcome | bool, sentence: str = "", **numbers: Number | float) -> Found:
    """A ``Found``; True and False mean holds and fails; a plain number has no unit."""
    words = {True: "holds", False: "fails"}.get(outcome, outcome)
    return Found(words, {name: _number(value) for name, value in numbers.items()}, sentence)


def quantity(value: float, unit: str) -> str:
    """A number as a person reads it: three significant digits, the fitting prefix, its unit."""
    if unit == "share":
        return f"{_short(100 * value)} %"
    if unit == "x":
        return f"{value:.2f}x" if value < 100 else f"{value:,.0f}x"
    if unit in _SCALES:
        names, step = _SCALES[unit]
        return _scaled(value, names, step)
    return f"{_short(value)} {unit}".rstrip()


def _number(value: Number | float) -> Number:
    value, unit = value if isinstance(value, tuple) else (value, "")
    return float(value), unit


_SCALES: dict[str, tuple[tuple[str, ...], float]] = {
    "B": (("B", "KiB", "MiB", "GiB", "TiB"), 1024),
    "B/s": (("B/s", "kB/s", "MB/s", "GB/s", "TB/s"), 1000),
    "s": (("ns", "µs", "ms", "s"), 1000),
}


def _scaled(value: float, names: tuple[str, ...], step: float) -> str:
    """With the prefix that leaves one to four digits before the point. Seconds begin at nanoseconds."""
    value = value * 1e9 if names[0] == "ns" else value
    for name in names[:-1]:
        if abs(value) < step:
            return f"{_short(value)} {name}"
        value /= step
    return f"{_short(value)} {names[-1]}"


def _short(value: float) -> str:
    if value == int(value) and abs(value) < 1e6:
        return f"{int(value):,}"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"
