"""Time of a layer's product against the number of tokens, for each weight format, read from a run of ``bench kernels``.

Fewer bytes pay while reading the weight takes the time; with many tokens arithmetic does, and 16 bits win. No torch is
loaded.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from engine.workload.kernel_ledger import of_references

FORMATS = ("int8", "fp8", "int4")
PEER = "bf16"  # the same product with a weight of 16 bits
_SHAPE = re.compile(r"M=(\d+), (\d+ -> \d+)")


@dataclass(frozen=True, slots=True)
class Curve:
    """One format of one layer: tokens, microseconds, and those of bf16 in the same run."""

    form: str
    tokens: tuple[int, ...]
    us: tuple[float, ...]
    dense_us: tuple[float, ...]

    @property
    def ratios(self) -> list[float]:
        """bf16 over the format: above 1 the format is faster."""
        return [dense / us for dense, us in zip(self.dense_us, self.us, strict=True)]

    @property
    def crossing(self) -> float | None:
        """Tokens at which 16 bits overtake, between two points on a log axis; None: not within the run."""
        points = list(zip(self.tokens, self.ratios, strict=True))
        for (few, above), (many, below) in pairwise(points):
            if above >= 1 > below:
                return few * (many / few) ** ((above - 1) / (above - below))
        return None


def curves(run: Mapping) -> dict[str, list[Curve]]:
    """Layer (``"4096 -> 28672"``) -> a curve for each format; nothing where the run has no such kernel."""
    if of_references(run):
        return {}
    found: dict[str, dict[str, dict[int, Mapping]]] = {}
    for entry in run["results"]:
        kernel, _, form = entry["kernel"].partition(" ")
        shape = _SHAPE.fullmatch(entry["shape"])
        if kernel == "quant" and form in FORMATS and shape and PEER in entry["peers"]:
            found.setdefault(shape[2], {}).setdefault(form, {})[int(shape[1])] = entry
    return {layer: [_curve(form, of[form]) for form in FORMATS if form in of] for layer, of in found.items()}


def _curve(form: str, entries: Mapping[int, Mapping]) -> Curve:
    tokens = tuple(sorted(entries))
    us = tuple(entries[count]["us"] for count in tokens)
    return Curve(form, tokens, us, tuple(entries[count]["peers"][PEER] for count in tokens))
