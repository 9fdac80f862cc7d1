"""How far 8-bit keys and values are from the real ones: on the bundled model's own cache, by what shares a scale.

The bundled model writes a text; its KV pool is read and stored again in 8 bits with one scale for a whole tensor, a
head, a channel of a head, or (as the engine does) a token of a head. ``python -m engine.workload.kv_error`` prints it
as JSON, so that the app needs no torch.
"""

import json
import sys
from collections.abc import Callable

import torch
from torch import Tensor

from engine.config import EngineConfig, SchedulingConfig, WorkerConfig
from engine.loading import load_model
from engine.request import SamplingParams
from engine.workload.drive import FAIR, Progress, silent
from engine.workload.report import ProgressBar
from kernels.kv_format import dequantise_reference, quantise_reference

PROMPT, TOKENS, SEED = "It is a truth universally acknowledged, that", 256, 1
FORMATS = {"int8": torch.int8, "fp8": torch.float8_e4m3fn}
SCALE_BYTES = 2
BINS = 25  # of the histogram, from the smallest to the largest key
# What shares a scale -> the numbers (T, H, D) with those that share one in the last axis
GRANULARITIES: dict[str, Callable[[Tensor], Tensor]] = {
    "tensor": lambda x: x.reshape(1, -1),
    "head": lambda x: x.transpose(0, 1).flatten(1),
    "channel": lambda x: x.permute(1, 2, 0),
    "token and head": lambda x: x,
}


def kv_error(progress: Progress = silent) -> dict:
    """Errors by granularity and format, and the keys of the layer whose channels differ the most.

    Returns:
        ``model``, ``tokens``, ``errors`` (see ``errors``), and ``keys`` (see ``histogram``) with their ``layer``.
    """
    name, layers = written_cache(progress)
    spreads = [float(channel_spread(keys).max()) for keys, _ in layers]
    layer = max(range(len(layers)), key=spreads.__getitem__)
    shown = {"layer": layer} | histogram(layers[layer][0])
    return {"model": name, "tokens": len(layers[0][0]), "errors": errors(layers), "keys": shown}


def written_cache(progress: Progress = silent) -> tuple[str, list[tuple[Tensor, Tensor]]]:
    """The model's name, and the keys and values (T, H, D) in fp32 of each layer after it has written a text."""
    config = EngineConfig(SchedulingConfig(max_model_len=2 * TOKENS), WorkerConfig(device="cpu"), 2 * TOKENS // 16)
    model = load_model(config, (), progress)
    engine = model.new_engine(FAIR)
    engine.submit(PROMPT, SamplingParams(max_tokens=TOKENS, temperature=0.8, seed=SEED))
    progress("writing a text", 0.5)
    engine.run()
    found = [(_written(kv.k), _written(kv.v)) for kv in model.worker.cache.layers]
    name = model.worker.spec.name
    model.close()
    return name, found


def _written(cache: Tensor) -> Tensor:
    """The tokens (T, H, D) of a pool (blocks, H, slots, D) that began as zeros; block 0 is never read."""
    slots = cache[1:].transpose(1, 2).flatten(0, 1).float()
    return slots[slots.abs().amax((1, 2)) > 0]


def errors(layers: list[tuple[Tensor, Tensor]]) -> list[dict]:
    """For each format and granularity ``key_error`` and ``value_error`` (||stored - x|| / ||x|| over all layers), the
    largest of one layer, and ``scale_bytes`` per number."""
    found = []
    for form in FORMATS:
        for granularity, arranged in GRANULARITIES.items():
            keys, values = zip(*[[_error(arranged(x), form) for x in layer] for layer in layers])
            sharing = arranged(layers[0][0]).shape[-1]
            entry = {"format": form, "granularity": granularity, "scale_bytes": SCALE_BYTES / sharing}
            worst = max(_relative([pair]) for pair in (*keys, *values))
            found.append(entry | {"key_error": _relative(keys), "value_error": _relative(values), "worst": worst})
    return found


def _error(x: Tensor, form: str) -> tuple[float, float]:
    """Squared error and squared size of numbers that share a scale along their last axis."""
    stored = dequantise_reference(*quantise_reference(x, FORMATS[form]))
    return float((stored - x).square().sum()), float(x.square().sum())


def _relative(pairs: list[tuple[float, float]]) -> float:
    return (sum(wrong for wrong, _ in pairs) / sum(size for _, size in pairs)) ** 0.5


def channel_spread(keys: Tensor) -> Tensor:
    """For each head, the largest magnitude of its loudest channel over that of its median channel."""
    loud = keys.abs().amax(0)  # (H, D)
    return loud.amax(1) / loud.median(1).values


def histogram(keys: Tensor) -> dict:
    """Keys of the head whose channels differ the most.

    Returns:
        ``head``, ``edges`` (BINS + 1), ``counts`` of tokens by bin for each channel (D x BINS), ``loudest`` magnitude
        of each channel, and ``spread`` as ``channel_spread``.
    """
    spread = channel_spread(keys)
    head = int(spread.argmax())
    own = keys[:, head]
    limit = float(own.abs().max())
    edges = torch.linspace(-limit, limit, BINS + 1)
    counts = [torch.histc(own[:, channel], BINS, -limit, limit).int().tolist() for channel in range(own.shape[1])]
    loudest = own.abs().amax(0).tolist()
    return {
        "head": head,
        "edges": edges.tolist(),
        "counts": counts,
        "loudest": loudest,
        "spread": float(spread[head]),
    }


if __name__ == "__main__":
    json.dump(kv_error(ProgressBar()), sys.stdout)
