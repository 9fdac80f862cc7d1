"""What a weight format costs in accuracy: the error of each weight, and how far answers move from the dense model's.

The quantised model answers greedily; then the dense one is asked, given the same tokens before each, what it would have
said. Two models never stand in memory at once. The comparison is ``check``, with the dense model as its reference.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from engine.workload import report
from engine.workload.check import Logits

if TYPE_CHECKING:  # torch takes seconds to load
    from torch import Tensor

FORMULAS = {
    "weight_bytes": "bytes of all weights, scales included",
    "dense_bytes": "of the same model in its own dtype",
    "worst": "the largest relative error of a weight: ||stored - given|| / ||given||",
    "tokens": "of the greedy answers to random prompts",
    "agreed": "the dense model chooses the same token, given the same tokens before it",
    "first_divergence": "the first token that it does not choose",
    "greedy_gap": "by how much it prefers another token, at most, in logits",
    "greedy_rank": "the worst rank that it gives to a token (0: the best)",
    "logit_gap": "largest difference of the logits of both, in standard deviations of a row",
    "kl": "mean divergence of the two distributions, in nats",
}


def by_layer(errors: Mapping[str, float]) -> list[dict[str, float]]:
    """Errors by checkpoint name -> one entry for each layer: its number, and the error of each of its weights."""
    layers: dict[int, dict[str, float]] = {}
    for name, error in errors.items():
        _, _, number, _, part, _ = name.split(".")
        layers.setdefault(int(number), {"layer": int(number)})[part] = error
    return [layers[number] for number in sorted(layers)]


def beside(stored: Mapping[tuple[int, ...], "Tensor"], dense: Logits) -> Logits:
    """The two sides of ``check``: what the quantised model said of each prompt, and the dense model as reference."""

    def logits(prompt: list[int], answer: list[int], backend: str | None) -> "Tensor":
        return dense(prompt, answer, None) if backend == "reference" else stored[tuple(prompt)]

    return logits


def tables(results: Mapping) -> list[str]:
    """Errors by layer, then what they do to the answers."""
    layers: Sequence[Mapping] = results["layers"]
    head = tuple(layers[0])
    rows = [head, *[tuple(report.number(layer[name]) for name in head) for layer in layers]]
    title = f"What {results['format']} changes"
    return [report.box("Relative error by layer", rows), report.box(title, report.metric_rows(results, FORMULAS))]
