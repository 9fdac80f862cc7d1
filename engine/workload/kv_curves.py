"""Time of decode attention against context for each KV format, read from a run of ``bench kernels``, and capacities.

A straight line is fitted, us = intercept + slope x context, because attention reads every key and value once. An 8-bit
format has the smaller slope; where its intercept is larger, it pays only behind the break-even. No torch is loaded.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from engine.workload.kernel_ledger import HEAD_8_BITS, HEAD_DIM, ITEM, of_references

KERNELS = {"bf16": "decode", "int8": "decode int8", "fp8": "decode fp8"}
_SHAPE = re.compile(r"(\d+) rows x (\d+), (\d+/\d+) heads")
HEAD_4_BITS = HEAD_DIM // 2 + 4  # two numbers a byte, and an fp16 scale and offset
HEAD_BYTES = {"bf16": ITEM * HEAD_DIM, "int8": HEAD_8_BITS, "fp8": HEAD_8_BITS, "int4": HEAD_4_BITS}
LAYERS, KV_HEADS = 28, 8  # of qwen3-0.6b
GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class Line:
    """One format: contexts and microseconds of the run, and the line through them (None from a single point)."""

    form: str
    contexts: tuple[int, ...]
    us: tuple[float, ...]
    intercept_us: float | None
    slope_us: float | None  # a token of context, all rows

    def at(self, context: float) -> float:
        """Microseconds by the fitted line."""
        return self.intercept_us + self.slope_us * context


def lines(run: Mapping) -> tuple[str, list[Line]]:
    """The rows and heads (``"64 rows, 16/8 heads"``) that the most contexts and formats were measured at, and a line
    for each format. Nothing where the run has no Triton kernel or no 8-bit format in it."""
    points = {} if of_references(run) else _points(run)
    shared = {where for form, where in points if form != "bf16"} & {where for form, where in points if form == "bf16"}
    if not shared:
        return "", []
    where = max(shared, key=lambda each: sum(len(points.get((form, each), {})) for form in KERNELS))
    return where, [_line(form, points[form, where]) for form in KERNELS if (form, where) in points]


def _points(run: Mapping) -> dict[tuple[str, str], dict[int, float]]:
    """(format, rows and heads) -> context -> microseconds."""
    forms, found = {kernel: form for form, kernel in KERNELS.items()}, {}
    for entry in run["results"]:
        shape = _SHAPE.fullmatch(entry["shape"])
        if shape and entry["kernel"] in forms:
            rows, context, heads = shape.groups()
            where = f"{rows} rows, {heads} heads"
            found.setdefault((forms[entry["kernel"]], where), {})[int(context)] = entry["us"]
    return found


def _line(form: str, points: Mapping[int, float]) -> Line:
    contexts = tuple(sorted(points))
    us = tuple(points[context] for context in contexts)
    if len(contexts) < 2:
        return Line(form, contexts, us, None, None)
    slope, intercept = np.polyfit(contexts, us, 1)
    return Line(form, contexts, us, float(intercept), float(slope))


def break_even(plain: Line, small: Line) -> float | None:
    """The context from which on ``small`` is faster by the fitted lines; 0: from the first token; None: never, or not
    known."""
    if plain.slope_us is None or small.slope_us is None or small.slope_us >= plain.slope_us:
        return None
    even = (small.intercept_us - plain.intercept_us) / (plain.slope_us - small.slope_us)
    return even if even >= 1 else 0.0


def capacity() -> list[dict]:
    """For each format: ``head_bytes`` of a key or value of one head, its share ``of_bf16``, how many times the tokens
    fit (``times``), and ``tokens_per_gib`` of qwen3-0.6b. int4 is reckoned only: the engine has no such pool yet."""
    return [
        {
            "format": form,
            "head_bytes": size,
            "of_bf16": size / HEAD_BYTES["bf16"],
            "times": HEAD_BYTES["bf16"] / size,
            "tokens_per_gib": GIB // (2 * LAYERS * KV_HEADS * size),
        }
        for form, size in HEAD_BYTES.items()
    ]
