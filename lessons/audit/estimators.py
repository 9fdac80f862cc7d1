"""The two estimators of article S1 as published, and what they should compute.

Batching: the published formula knows the mean and the maximum only and multiplies by an invented 1.8. What decides is
the longest of a batch: gain of row waste alone = E[longest of B] / E[length]. Fusion: the published formula weighs by
the number of operations; Amdahl weighs by time.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

import numpy as np

KINDS = ("exponential", "uniform", "equal")
OCCUPANCY, MEMORY_CUT, COMPUTE_CUT = 1.8, 0.6, 0.1  # the published constants


def published_batching(average: int, longest: int, rows: int, step_s: float) -> dict[str, float]:
    """As published; ``rows`` and ``step_s`` are arguments there too, and change nothing.

    Returns:
        ``static_util``, ``in_flight_util``, ``gain`` and ``static_waste`` (tokens of a row).
    """
    static = average / longest
    in_flight = min(1.0, OCCUPANCY * static)
    waste = sum(longest - length for length in range(average, longest + 1)) / (longest - average + 1)
    useful = [utilisation * rows / step_s for utilisation in (static, in_flight)]  # tokens/s, which cancel
    return {
        "static_util": static,
        "in_flight_util": in_flight,
        "gain": useful[1] / useful[0],
        "static_waste": waste,
    }


@dataclass(frozen=True, slots=True)
class Lengths:
    """Output lengths of requests as a distribution: ``values`` (whole tokens) and their ``chances``."""

    values: np.ndarray
    chances: np.ndarray

    @property
    def mean(self) -> float:
        """E[length]."""
        return float(self.values @ self.chances)

    def longest_of(self, rows: int) -> float:
        """E[longest of ``rows`` independent lengths], exactly: each value times the chance that it is the longest."""
        below = np.cumsum(self.chances) ** rows
        return float(self.values @ np.diff(below, prepend=0.0))

    def gain(self, rows: int) -> float:
        """What row waste alone allows: E[longest of a batch] / E[length]."""
        return self.longest_of(rows) / self.mean

    def draw(self, count: int, seed: int) -> list[int]:
        """``count`` lengths."""
        return Random(seed).choices(self.values.tolist(), self.chances.tolist(), k=count)


def lengths(kind: str, average: int, longest: int) -> Lengths:
    """Lengths 1..``longest``: exponential around ``average`` and cut at the longest, uniform around it, or all equal.

    Raises:
        ValueError: naming the argument.
    """
    if kind not in KINDS:
        raise ValueError(f"kind: one of {', '.join(KINDS)}; got {kind!r}")
    if not 1 <= average <= longest:
        raise ValueError(f"average: 1 to longest ({longest}); got {average}")
    values = np.arange(1, longest + 1)
    if kind == "equal":
        chances = (values == average).astype(float)
    elif kind == "uniform":
        reach = min(average - 1, longest - average)
        chances = (abs(values - average) <= reach).astype(float)
    else:
        beyond = np.exp(-np.arange(longest) / average)  # P(length > n)
        chances = beyond - np.append(beyond[1:], 0.0)  # the last value takes the whole tail
    return Lengths(values, chances / chances.sum())


def sampled_gain(drawn: Sequence[int], rows: int) -> float:
    """E[longest] / E[length] of drawn lengths in groups of ``rows``; a last group that is not full is left out."""
    whole = len(drawn) // rows * rows
    groups = np.array(drawn[:whole]).reshape(-1, rows)
    return float(groups.max(axis=1).mean() / groups.mean())


def published_fusion(memory_ops: int, compute_ops: int, coverage: float) -> dict[str, float]:
    """As published: reductions of 60 % and 10 % times coverage, weighted by the number of operations.

    Returns:
        ``memory``, ``compute`` and ``overall`` speed-up.
    """
    memory, compute = 1 - MEMORY_CUT * coverage, 1 - COMPUTE_CUT * coverage
    share = memory_ops / (memory_ops + compute_ops)
    return {"memory": 1 / memory, "compute": 1 / compute, "overall": 1 / (share * memory + (1 - share) * compute)}


def fusion_by_time(memory_share: float, coverage: float) -> float:
    """The published reductions, weighted by ``memory_share`` of the *time* instead of the count."""
    memory, compute = 1 - MEMORY_CUT * coverage, 1 - COMPUTE_CUT * coverage
    return 1 / (memory_share * memory + (1 - memory_share) * compute)


def amdahl(parts_us: Mapping[str, float], ratios: Mapping[str, float], coverage: float = 1.0) -> float:
    """Speed-up by fusing: time with nothing fused over time with a share ``coverage`` of the calls fused.

    Args:
        parts_us: microseconds of the parts of a layer, measured with all fusions on.
        ratios: unfused over fused time of those parts that can be fused.
    """
    saved = sum(parts_us[name] * (ratio - 1) for name, ratio in ratios.items())
    separate = sum(parts_us.values()) + saved
    return separate / (separate - coverage * saved)
