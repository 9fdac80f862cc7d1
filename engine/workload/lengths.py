"""Workloads by their lengths alone: functions of their seed (CPython's ``random``), so anybody can draw them again.

The quantile tables describe public traces (Azure LLM inference 2023, CC-BY; Mooncake, Apache-2.0); no row of these
traces is shipped.
"""

from bisect import bisect_right
from random import Random

from engine.workload.items import Item, Workload

LEVELS = (0, 1, 5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 95, 99, 99.9, 100)  # percent

AZURE_CODE = (
    (3, 17, 75, 147, 386, 770, 1075, 1469, 1909, 2433, 3192, 5188, 7303, 7436, 7437, 7437),
    (6, 6, 6, 7, 8, 9, 11, 13, 16, 20, 29, 55, 90, 251, 825, 1899),
)
AZURE_CHAT = (
    (2, 29, 181, 207, 387, 403, 703, 1020, 1071, 1130, 1315, 2734, 4083, 4142, 6179, 14050),
    (7, 16, 41, 54, 77, 91, 103, 129, 177, 384, 400, 424, 451, 601, 954, 1000),
)
MOONCAKE = (
    (891, 894, 901, 964, 1662, 3263, 4993, 6909, 9570, 13196, 17869, 27367, 39550, 85400, 121301, 126195),
    (1, 3, 10, 24, 100, 213, 291, 350, 399, 447, 504, 597, 698, 1119, 2000, 2000),
)
# No table of ShareGPT is at hand, only the means that benchmarks report of it: log-normals (sigma 1.2 and 1.0) cut to
# 4..1024 as those benchmarks cut it, with a mean prompt of 221 and a mean answer of 204 tokens.
SHAREGPT = (
    (4, 10, 21, 33, 55, 79, 108, 145, 192, 258, 359, 539, 703, 937, 1014, 1024),
    (4, 14, 28, 40, 62, 84, 110, 141, 180, 234, 315, 464, 616, 886, 1007, 1024),
)
PROMPTS = (16, 64)  # prompt lengths of the race
MEAN, SHORTEST, LONGEST = 48, 4, 160  # its output lengths


def race(requests: int, spread: float, seed: int, vocab_size: int) -> Workload:
    """The race: prompts of 16-64 random tokens, outputs exponential with mean 48 cut to 4..160, all at t=0.

    ``spread`` in 0..1 scales the deviation from the mean; 0 makes all outputs equal. The declared ``max_tokens`` is the
    output length: nothing else than the lengths tells the schedulers apart.
    """
    rng = Random(seed)
    prompts = [[rng.randrange(vocab_size) for _ in range(rng.randint(*PROMPTS))] for _ in range(requests)]
    drawn = [min(LONGEST, max(SHORTEST, rng.expovariate(1 / MEAN))) for _ in range(requests)]
    lengths = [round(MEAN + spread * (length - MEAN)) for length in drawn]
    items = [Item(prompt, length, length) for prompt, length in zip(prompts, lengths)]
    return Workload("race", items, seed, (f"length spread {spread:g}",))


def w1(requests: int = 256, seed: int = 0) -> Workload:
    """W1: prompts and outputs uniform in 100..1024, ids up to 10,000, temperature 0.6, end of sequence ignored.

    The draw order (all token ids first, then the outputs) is that of a public bench, whose totals it therefore meets:
    142,827 tokens in, 133,966 out for 256 requests and seed 0.
    """
    rng = Random(seed)
    prompts = [[rng.randint(0, 10_000) for _ in range(rng.randint(100, 1024))] for _ in range(requests)]
    lengths = [rng.randint(100, 1024) for _ in range(requests)]
    items = [
        Item(prompt, length, length, params={"temperature": 0.6, "seed": index})
        for index, (prompt, length) in enumerate(zip(prompts, lengths))
    ]
    return Workload("W1", items, seed)


def fixed(requests: int = 3000, seed: int = 0, prompt: int = 1000, output: int = 1000) -> Workload:
    """Equal lengths: ``prompt`` random tokens in, ``output`` out, greedy."""
    rng = Random(seed)
    items = [Item([rng.randint(0, 10_000) for _ in range(prompt)], output, output) for _ in range(requests)]
    return Workload(f"{prompt}x{output}", items, seed)


def draw(table: tuple[float, ...], rng: Random) -> int:
    """One length by inverse transform through a quantile table at ``LEVELS`` (piecewise linear)."""
    level = rng.random() * 100
    right = min(bisect_right(LEVELS, level), len(LEVELS) - 1)
    low, high = LEVELS[right - 1], LEVELS[right]
    share = (level - low) / (high - low)
    return max(1, round(table[right - 1] + share * (table[right] - table[right - 1])))


def from_quantiles(
    name: str, tables: tuple[tuple[float, ...], tuple[float, ...]], requests: int, seed: int
) -> Workload:
    """Independent prompt and output lengths from two quantile tables, all at t=0, greedy."""
    rng = Random(seed)
    lengths = [(draw(tables[0], rng), draw(tables[1], rng)) for _ in range(requests)]
    items = [Item([rng.randint(0, 10_000) for _ in range(prompt)], output, output) for prompt, output in lengths]
    return Workload(name, items, seed)
