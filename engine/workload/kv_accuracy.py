"""What an 8-bit KV cache costs in accuracy: the same texts through the same kernels, once with each kind of pool.

A text is a prompt and an answer, computed in one prefill (teacher-forced). Quantisation is per token and head, so the
prefill stores the very numbers that decoding would have stored. Up to the first divergence the answer that a greedy run
gives with one pool is the one that it gives with the other.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from engine.workload.check import logit_gap
from engine.workload.drive import Progress, silent

if TYPE_CHECKING:  # torch takes seconds to load
    from torch import Tensor

Text = tuple[list[int], list[int]]  # token ids of prompt and answer
# (prompt, answer, whether keys and values keep the model's dtype) -> logits fp32 [tokens of the answer, V]
KVLogits = Callable[[list[int], list[int], bool], "Tensor"]

FORMULAS: dict[str, str] = {
    "texts": "prompts with their answers, computed once with each pool",
    "tokens": "tokens of the answers: places where logits are compared",
    "kl": "mean divergence of the distributions from those with the model's own KV dtype, in nats",
    "kl_worst": "the largest mean divergence of a text",
    "logit_gap": "largest difference of two logits, in standard deviations of their row",
    "greedy_agreement": "share of places where the best token is the same",
    "first_divergence": "the first place where it is not, in each text; none: never",
    "same_until": "places before the first divergence, mean over the texts",
}


def kv_accuracy(texts: Sequence[Text], logits: KVLogits, progress: Progress = silent) -> dict:
    """Compare an 8-bit pool with one of the model's dtype over ``texts``. Returns the keys of ``FORMULAS``."""
    found = []
    for number, (prompt, answer) in enumerate(texts):
        progress("comparing KV dtypes", number / len(texts))
        found.append(compare(logits(prompt, answer, False), logits(prompt, answer, True)))
    tokens = sum(text["tokens"] for text in found)
    return {
        "texts": len(found),
        "tokens": tokens,
        "kl": sum(text["kl"] * text["tokens"] for text in found) / tokens,
        "kl_worst": max(text["kl"] for text in found),
        "logit_gap": max(text["logit_gap"] for text in found),
        "greedy_agreement": sum(text["agreed"] for text in found) / tokens,
        "first_divergence": [text["first_divergence"] for text in found],
        "same_until": sum(text["same_until"] for text in found) / len(found),
    }


def compare(quantised: "Tensor", plain: "Tensor") -> dict:
    """Figures of one text from its logits ``[tokens, V]`` with either pool."""
    same = quantised.argmax(1) == plain.argmax(1)
    wrong = (~same).nonzero().flatten().tolist()
    return logit_gap(quantised, plain) | {
        "tokens": len(plain),
        "agreed": int(same.sum()),
        "first_divergence": wrong[0] if wrong else None,
        "same_until": wrong[0] if wrong else len(plain),
    }
