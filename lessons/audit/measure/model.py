"""The model itself: starting it, its memory and weights, sampling, its keys in 8 bit, and what the host adds."""

import statistics
import time
from dataclasses import replace

import torch
from torch import Tensor

from engine.bundled import MODEL_DIR
from engine.config import WorkerConfig
from engine.tokenizer import load as load_tokenizer
from engine.worker.checkpoint import ARCHITECTURES
from engine.workload.drive import Progress, drive
from engine.workload.host import Load, host_costs
from engine.workload.items import Item
from lessons.audit.measure.setup import bundled, prompts

TEXT = "It is a truth universally acknowledged, that a single man must be in want of a wife. " * 8
SETTINGS = (
    {"temperature": 0.0},
    {"temperature": 0.7, "top_k": 20, "seed": 1},
    {"temperature": 1.0, "top_p": 0.9, "seed": 2},
    {"temperature": 1.3, "repetition_penalty": 1.2, "seed": 3},
)


def start(device: str, progress: Progress) -> dict:
    """Load the model twice in one process, graphs and all."""
    seconds = []
    for which in ("first", "second"):
        began = time.perf_counter()
        with bundled(device, progress) as model:
            while model.worker.prepare():
                progress(f"{which} start: capturing graphs", 0.5)
            seconds.append(time.perf_counter() - began)
    return {"first_s": seconds[0], "second_s": seconds[1]}


def weights(device: str, progress: Progress) -> dict:
    """Where the memory of a loaded model goes, and whether its stacked weights are those of the checkpoint."""
    with bundled(device, progress) as model:
        while model.worker.prepare():
            progress("capturing graphs", 0.5)
        return {
            "memory_map": dict(model.worker.memory_map),
            "stacked": {linear.name: len(linear.parts) for linear in model.worker.spec.linears},
            "largest_difference": _unstacked(model.worker.model),
            "families": list(ARCHITECTURES),
        }


def _unstacked(model: object) -> float:
    """The largest difference between a tensor of the checkpoint and its part of the stacked weight."""
    from safetensors.torch import load_file

    kept = load_file(MODEL_DIR / "model.safetensors")
    places = model.tensors()
    return max(float((kept[name].to(place) - place).abs().max()) for name, place in places.items() if name in kept)


def _tokenizer() -> dict:
    tokenizer, times = load_tokenizer(WorkerConfig()), []
    for _ in range(5):
        began = time.perf_counter()
        ids = tokenizer.encode(TEXT)
        times.append(time.perf_counter() - began)
    return {"encode_s": statistics.median(times), "tokens": len(ids)}


def sampling(device: str, progress: Progress) -> dict:
    """Four requests with settings of their own: alone, and all in one batch."""
    with bundled(device, progress, prefix_cache=False) as model:
        drawn = prompts(len(SETTINGS), 16, model.limits.vocab_size)
        items = [Item(prompt, 24, 24, params=settings) for prompt, settings in zip(drawn, SETTINGS)]
        together = drive(model.new_engine(), items, "one batch", progress).outputs
        alone = [drive(model.new_engine(), [item], "one alone", progress).outputs[0] for item in items]
        greedy = [
            drive(model.new_engine(), [replace(item, params={})], "greedy", progress).outputs[0] for item in items
        ]
    same = sum(a == b for a, b in zip(together, alone))
    return {"requests": len(items), "same": same, "unlike_greedy": sum(a != b for a, b in zip(alone, greedy))}


@torch.inference_mode()
def keys(device: str, progress: Progress) -> dict:
    """Relative error of the model's real keys in 8 bit, by what shares a scale; and with a scale from other tokens."""
    with bundled(device, progress, prefix_cache=False) as model:
        items = [Item(prompts(1, 256, model.limits.vocab_size)[0], 1, 1)]
        drive(model.new_engine({"max_num_seqs": 1}), items, "filling the cache", progress)
        layers = [_written(layer.k.float().cpu()) for layer in model.worker.cache.layers]
    dims = {"tensor": (0, 1, 2), "head": (1, 2), "channel": (1,), "token_head": (2,)}
    errors = {
        name: statistics.mean(_error(layer, _scale(layer, over)) for layer in layers) for name, over in dims.items()
    }
    stale = statistics.mean(_error(layer, _scale(layer[:, :16] / 2, (1, 2))) for layer in layers)
    spread = statistics.mean(float((layer.abs().amax((1,)) / layer.abs().mean((1,))).max()) for layer in layers)
    return {"errors": errors, "stale": stale, "outlier": spread, "layers": len(layers)}


def _written(cache: Tensor) -> Tensor:
    """(heads, tokens, head size): the slots that hold keys. Block 0 is never written."""
    flat = cache[1:].permute(1, 0, 2, 3).flatten(1, 2)
    return flat[:, flat.abs().sum((0, 2)) > 0]


def _scale(values: Tensor, over: tuple[int, ...]) -> Tensor:
    return values.abs().amax(over, keepdim=True) / 127


def _error(values: Tensor, scale: Tensor) -> float:
    """Norm of the rounding over the norm of the values; what lies beyond the scale is cut."""
    back = (values / scale).round().clamp(-127, 127) * scale
    return float((back - values).norm() / values.norm())


def host(device: str, progress: Progress) -> dict:
    """Microseconds of the engine loop without a device, and what tokenising costs."""
    load = Load(rows=8, blocks=1024)
    return host_costs((load,), steps=200, progress=progress)["loads"][0] | {"tokenizer": _tokenizer()}
