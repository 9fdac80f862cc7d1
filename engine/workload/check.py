"""Spot checks of a benchmark's answers: greedy tokens recomputed by a second path, teacher-forced.

In low precision another batch shape changes low bits, so that equal tokens are not promised. What is reported is the
first divergence of each answer and the gap of the logits there: a gap within rounding is a tie, a large one is a fault.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random

import numpy as np

from engine.workload.drive import FAIR, MakeEngine, Progress, drive, silent
from engine.workload.items import Item

Logits = Callable[[list[int]], np.ndarray]  # token ids [T] -> logits [T, V] of the second path
CHECKED_TOKENS = 32


def check(
    make_engine: MakeEngine, items: Sequence[Item], logits: Logits, count: int, progress: Progress = silent
) -> dict:
    """Answer ``count`` of ``items`` greedily, together, and compare every token with the arg max of ``logits``.

    Returns:
        ``requests``, ``tokens`` and ``agreed`` counts, ``first_divergence`` (request, position) or None, and
        ``largest_gap``: by how much the second path preferred another token, at most, in logits and in spreads.
    """
    chosen = sorted(Random(0).sample(range(len(items)), min(count, len(items))))
    greedy = [_greedy(items[index]) for index in chosen]
    outcome = drive(make_engine(FAIR, ()), greedy, "checked answers", progress)
    report = {"requests": len(chosen), "tokens": outcome.tokens, "agreed": 0, "first_divergence": None}
    largest = {"logits": 0.0, "spreads": 0.0}
    for index, item, output in zip(chosen, greedy, outcome.outputs, strict=True):
        progress("recomputing", chosen.index(index) / len(chosen))
        gaps, spread = answer_gaps(logits, item.prompt_ids, output)
        wrong = np.flatnonzero(gaps > 0)
        report["agreed"] += len(output) - len(wrong)
        if len(wrong) and report["first_divergence"] is None:
            report["first_divergence"] = {"request": index, "position": int(wrong[0])}
        largest["logits"] = max(largest["logits"], float(gaps.max()))
        largest["spreads"] = max(largest["spreads"], float((gaps / spread).max()))
    return report | {"largest_gap": largest}


def answer_gaps(logits: Logits, prompt: list[int], output: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """For each output token: best logit less its own (0: it is the arg max), and the standard deviation of the row."""
    rows = np.asarray(logits(prompt + output))[len(prompt) - 1 : -1].astype(np.float32)
    own = rows[np.arange(len(output)), output]
    return rows.max(axis=1) - own, rows.std(axis=1)


def _greedy(item: Item) -> Item:
    tokens = min(CHECKED_TOKENS, item.max_tokens)
    return replace(item, max_tokens=tokens, forced_output_length=tokens, arrival_s=0.0, params={})
