"""Spot checks of a benchmark: answers of the very run, recomputed token by token with the plain references.

A whole answer goes through the reference kernels in one prefill (teacher-forced), and each token is chosen again from
these logits, with the request's own seed. In low precision another path changes low bits, so that equal tokens are not
promised: beside them stands how far the fast kernels' logits are from the references'. A fault is far more than that.
"""

from collections.abc import Callable, Sequence
from random import Random
from typing import TYPE_CHECKING

from engine.request import SamplingParams
from engine.workload.drive import Progress, silent
from engine.workload.items import Item

if TYPE_CHECKING:  # torch takes seconds to load
    from torch import Tensor

# (prompt, answer, backend or None for the one that serves) -> logits fp32 [tokens of the answer, V], in one prefill
Logits = Callable[[list[int], list[int], str | None], "Tensor"]

FORMULAS: dict[str, str] = {
    "requests": "answers of the recorded pass that were recomputed, drawn at random",
    "tokens": "their tokens, each one a sampled step",
    "agreed": "the references choose the same token, given the same tokens before it and the same seed",
    "first_divergence": "the first token that they do not choose",
    "greedy_gap": "by how much the references prefer another token to a greedy one, at most, in logits (if any is)",
    "greedy_rank": "the worst rank that the references give to a greedy token (0: the best)",
    "logit_gap": "largest difference of fast and reference logits, in standard deviations of a row",
    "kl": "mean divergence of the two distributions, in nats",
}
SEED_MASK = (1 << 63) - 1  # any whole number may be a seed


def check(
    items: Sequence[Item], outputs: Sequence[list[int]], logits: Logits, count: int, progress: Progress = silent
) -> dict:
    """Recompute ``count`` of the answers ``outputs`` to ``items``. Returns the keys of ``FORMULAS``."""
    chosen = drawn(len(items), count)
    report = {"requests": len(chosen), "tokens": 0, "agreed": 0, "first_divergence": None}
    worst: dict[str, float] = {}
    divergence = 0.0
    for number, index in enumerate(chosen):
        progress("recomputing", number / len(chosen))
        item, output = items[index], outputs[index]
        params, reference = item.sampling(), logits(item.prompt_ids, output, "reference")
        found = logit_gap(logits(item.prompt_ids, output, None), reference)
        divergence += found.pop("kl") * len(output)
        if params.temperature == 0:
            found |= greedy_gap(reference, output)
        worst = worst | {name: max(value, worst.get(name, value)) for name, value in found.items()}
        wrong = [
            place
            for place, token in enumerate(choose(reference, params, len(item.prompt_ids)))
            if token != output[place]
        ]
        report["tokens"] += len(output)
        report["agreed"] += len(output) - len(wrong)
        if wrong and report["first_divergence"] is None:
            report["first_divergence"] = {"request": index, "position": wrong[0]}
    return report | worst | {"kl": divergence / report["tokens"]}


def drawn(items: int, count: int) -> list[int]:
    """Indices of ``count`` of ``items`` answers, the same ones in every run."""
    return sorted(Random(0).sample(range(items), min(count, items)))


def choose(logits: "Tensor", params: SamplingParams, position: int) -> list[int]:
    """The token that the reference sampler takes from each row; the first stands at ``position`` of its sequence."""
    import torch

    from kernels.sampling import sample

    rows, device = len(logits), logits.device
    temperature, top_p, min_p = (
        torch.full((rows,), value, device=device) for value in (params.temperature, params.top_p, params.min_p)
    )
    top_k = torch.full((rows,), params.top_k, dtype=torch.int32, device=device)
    seeds = torch.full((rows,), params.seed & SEED_MASK, dtype=torch.int64, device=device)
    positions = torch.arange(position, position + rows, dtype=torch.int32, device=device)
    plain = params.top_k < 1 and params.top_p >= 1 and params.min_p <= 0
    return sample(logits, temperature, top_k, top_p, min_p, seeds, positions, plain, backend="reference").tolist()


def greedy_gap(reference: "Tensor", output: Sequence[int]) -> dict[str, float]:
    """How far greedy tokens are from the arg max of the references' logits, at most."""
    own = reference[range(len(output)), output].unsqueeze(1)
    return {
        "greedy_gap": float((reference.amax(1, keepdim=True) - own).max()),
        "greedy_rank": int((reference > own).sum(1).max()),
    }


def logit_gap(ours: "Tensor", reference: "Tensor") -> dict[str, float]:
    """Largest difference in standard deviations of its row, and the mean of KL(reference || ours) over the rows."""
    gap = ((ours - reference).abs().amax(1) / reference.std(1)).max()
    p, q = reference.log_softmax(1), ours.log_softmax(1)
    return {"logit_gap": float(gap), "kl": float((p.exp() * (p - q)).sum(1).mean())}
