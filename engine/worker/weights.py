"""Fills a model: from safetensors, tensor by tensor straight into the stacked weights, or with random numbers.

At no time do two copies of the model exist: each tensor is mapped from its file and copied to its place on the device,
quantised on the way where its place asks for that.
"""

import json
import math
from collections.abc import Callable
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from engine.errors import UnsupportedModel
from engine.worker.model import Model
from kernels.quantise import QuantRows

Progress = Callable[[str, float], None]


def load_weights(model: Model, folder: Path, progress: Progress) -> None:
    """Copy every tensor of the checkpoint into ``model``.

    Raises ``UnsupportedModel`` for a checkpoint without safetensors, with a tensor missing or of another shape, or with
    one that the model has no place for (a dropped bias would answer nonsense in silence).
    """
    places = model.tensors()
    total, done = sum(math.prod(place.shape) for place in places.values()), 0
    missing = set(places)
    for path in weight_files(folder):
        with _open(path) as file:
            for name in file.keys():  # noqa: SIM118  # not a dict
                place = _place(places, name, model.spec.tied)
                if place is None:
                    continue
                _copy(model, place, file.get_tensor(name), name)
                missing.discard(name)
                done += math.prod(place.shape)
                progress("loading weights", done / total)
    if missing:
        raise UnsupportedModel(f"{folder} lacks {len(missing)} tensors, the first is {min(missing)}")


def weight_files(folder: Path) -> list[Path]:
    """The safetensors files of a checkpoint. Raises ``UnsupportedModel`` when there is none, or only a pickled one."""
    index = folder / "model.safetensors.index.json"
    if index.exists():
        names = json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()
        return [folder / name for name in sorted(set(names))]
    if (folder / "model.safetensors").exists():
        return [folder / "model.safetensors"]
    if list(folder.glob("*.bin")) or list(folder.glob("*.pt")):
        raise UnsupportedModel(f"{folder} holds pickled weights only, which can run code; convert them to safetensors")
    raise UnsupportedModel(f"{folder} holds no model.safetensors")


def _open(path: Path) -> safe_open:
    try:
        return safe_open(path, framework="pt", device="cpu")
    except (SafetensorError, OSError) as error:
        raise UnsupportedModel(f"cannot read {path}: {error}") from error


def _place(places: dict[str, Tensor | QuantRows], name: str, tied: bool) -> Tensor | QuantRows | None:
    """Where the tensor goes; None when it is derived from others and may be skipped."""
    if name in places:
        return places[name]
    if name.endswith("rotary_emb.inv_freq") or (tied and name == "lm_head.weight"):
        return None
    raise UnsupportedModel(f"the checkpoint holds {name}, which this architecture has no place for")


def _copy(model: Model, place: Tensor | QuantRows, tensor: Tensor, name: str) -> None:
    if place.shape != tensor.shape:
        raise UnsupportedModel(f"{name} is {list(tensor.shape)}, the config says {list(place.shape)}")
    place.copy_(tensor)
    if isinstance(place, QuantRows):
        model.quant_errors[name] = place.relative_error(tensor)


def random_weights(model: Model, seed: int, progress: Progress) -> None:
    """Fill ``model`` with normal numbers drawn on its device, the same for the same seed, device kind and dtype; a
    quantised model stands for the very numbers that the dense one has.

    Each product keeps its input's size, what adds to the residual stream is scaled down by the number of additions
    (GPT-2), and the embedding gives logits a deviation of about 2.5, as trained models have.
    """
    generator = torch.Generator(model.embedding.device).manual_seed(seed)
    places = model.tensors()
    additions = math.sqrt(2 * model.spec.num_layers)
    for index, (name, place) in enumerate(places.items()):
        if len(place.shape) == 1:
            place.fill_(0.0 if name.endswith("bias") else 1.0)
            continue
        scale = 2.5 if name.endswith(("embed_tokens.weight", "lm_head.weight")) else 1.0
        scale /= additions if name.endswith(("o_proj.weight", "down_proj.weight")) else 1.0
        dense = place
        if isinstance(place, QuantRows):
            dense = torch.empty(place.shape, dtype=model.spec.dtype, device=model.embedding.device)
        dense.normal_(0.0, scale / math.sqrt(place.shape[1]), generator=generator)
        if dense is not place:
            _copy(model, place, dense, name)
        progress("drawing random weights", (index + 1) / len(places))
