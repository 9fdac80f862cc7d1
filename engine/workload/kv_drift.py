"""How far a model drifts when its KV cache is quantised: divergence of its distributions place by place.

The bundled model answers greedily with its own KV dtype; each answer is then computed again, teacher-forced, with
quantised pools (``kv_accuracy``). Random weights would say nothing here: their distributions mean nothing.
"""

from collections.abc import Sequence
from random import Random

import torch
from torch import Tensor

from engine.loading import LoadedModel, load_model
from engine.provenance import device_name
from engine.worker.checkpoint import KV_DTYPES
from engine.workload.drive import FAIR, Progress, drive, silent
from engine.workload.items import Item
from engine.workload.kv_accuracy import Text, kv_accuracy
from engine.workload.sweeps import kv_name, sweep_config

OPENINGS = (  # in the manner of the model's books
    "It was a truth universally acknowledged",
    "And the king said unto the woman,",
    "The carriage",
    "My dear sister, I have",
    "In the beginning was",
    "Mr. Darcy looked",
    "Thus saith the LORD",
    "Emma could not",
)


def kv_drift(kv_dtypes: Sequence[str], texts: int, tokens: int, seed: int = 0, progress: Progress = silent) -> dict:
    """Compare pools of ``kv_dtypes`` with the model's own over ``texts`` greedy answers of ``tokens`` tokens.

    Args:
        texts: at most as many as there are ``OPENINGS``.
        seed: draws them.

    Returns:
        ``device``, ``plain`` (the model's own KV dtype), ``tokens`` and ``formats``: by KV dtype the keys of
        ``kv_accuracy``, and ``kl_at`` (its mean over the texts at each place, nats).
    """
    model = load_model(sweep_config(None, texts, 64 + tokens), (), _part(progress, 0.0, 0.1))
    try:
        written = _answers(model, _prompts(model, texts, seed), tokens, _part(progress, 0.1, 0.4))
        spec, device = model.worker.spec, device_name(model.worker.device)
        plain = [_logits(model, text, spec.dtype) for text in written]
        formats = {}
        for place, kv_dtype in enumerate(kv_dtypes):
            share = 0.6 / len(kv_dtypes)
            heard = _part(progress, 0.4 + share * place, 0.4 + share * (place + 1))
            formats[kv_dtype] = _drift(model, written, plain, kv_dtype, heard)
        return {"device": device, "plain": kv_name(spec.dtype), "tokens": tokens, "formats": formats}
    finally:
        model.close()


def divergences(quantised: Tensor, plain: Tensor) -> list[float]:
    """KL(plain || quantised) at each row of two logits ``[tokens, V]``, in nats; rounding below 0 counts as 0."""
    p, q = plain.log_softmax(1), quantised.log_softmax(1)
    return (p.exp() * (p - q)).sum(1).clamp_min(0).tolist()


def _drift(
    model: LoadedModel, texts: Sequence[Text], plain: Sequence[Tensor], kv_dtype: str, progress: Progress
) -> dict:
    """``kv_accuracy`` asks for each text twice: with the quantised pool first, then with the plain one."""
    others, places, last = iter(plain), [], []

    def logits(prompt: list[int], answer: list[int], is_plain: bool) -> Tensor:
        if not is_plain:
            last[:] = [_logits(model, (prompt, answer), KV_DTYPES[kv_dtype])]
            return last[0]
        other = next(others)
        places.append(divergences(last[0], other))
        return other

    found = kv_accuracy(texts, logits, progress)
    return found | {"kl_at": [sum(column) / len(column) for column in zip(*places)]}


def _logits(model: LoadedModel, text: Text, kv_dtype: torch.dtype) -> Tensor:
    """At each token of the answer, fp32 ``[tokens, V]``."""
    (prompt, answer), worker = text, model.worker
    found = worker.logits(prompt + answer[:-1], first=len(prompt) - 1, kv_dtype=kv_dtype)
    return found[:, : worker.spec.num_token_ids]


def _answers(model: LoadedModel, prompts: Sequence[list[int]], tokens: int, progress: Progress) -> list[Text]:
    items = [Item(prompt, tokens, tokens) for prompt in prompts]
    outcome = drive(model.new_engine(FAIR, ()), items, "greedy answers", progress)
    return list(zip(prompts, outcome.outputs))


def _part(progress: Progress, begin: float, end: float) -> Progress:
    """``progress`` of a part, as a share of the whole."""
    return lambda what, done: progress(what, begin + (end - begin) * done)


def _prompts(model: LoadedModel, count: int, seed: int) -> list[list[int]]:
    """``count`` of the openings, drawn."""
    return [model.tokenizer.encode(text)[:64] for text in Random(seed).sample(OPENINGS, count)]
