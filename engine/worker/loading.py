"""From a configuration to a model that is ready to run."""

from collections.abc import Callable
from dataclasses import replace

import torch

from engine.config import WorkerConfig
from engine.errors import InvalidRequest, OutOfMemory, UnsupportedModel
from engine.model_files import SMALL_FILES, WEIGHT_FILES, model_folder
from engine.worker.checkpoint import read_spec, resolve_dtype, resolve_kv_dtype
from engine.worker.kv_cache import GIB, free_bytes
from engine.worker.model import Model
from engine.worker.shapes import random_spec
from engine.worker.spec import ModelSpec
from engine.worker.weights import load_weights, random_weights, weight_files
from kernels.attention import BLOCK_SIZES, check_supported

Progress = Callable[[str, float], None]


def silent(_what: str, _share: float) -> None:
    """A progress callback for callers that show none."""


def load_model(
    config: WorkerConfig, max_model_len: int, device: torch.device, backend: str, progress: Progress = silent
) -> Model:
    """Read the spec, allocate the weights on ``device`` and fill them from the checkpoint or from ``config.seed``.

    Raises ``UnsupportedModel`` or ``OutOfMemory`` before anything large is read.
    """
    progress("reading the model", 0.0)
    dtype, kv_dtype = resolve_dtype(config, device), resolve_kv_dtype(config, device)
    form = config.quantize or "dense"
    check_format(form, device)
    if config.random_weights:
        spec = random_spec(config.random_weights, dtype, kv_dtype, max_model_len)
        model = _allocate(replace(spec, weight_format=form), device, backend)
        random_weights(model, config.seed, progress)
        return model
    folder = model_folder(config, (*SMALL_FILES, *WEIGHT_FILES))
    spec = read_spec(folder, config.model, dtype, kv_dtype, max_model_len)
    weight_files(folder)  # a folder without any is told before its size is
    model = _allocate(replace(spec, weight_format=form), device, backend)
    load_weights(model, folder, progress)
    return model


def check_block_size(block_size: int, backend: str, kv_has_scales: bool) -> None:
    """Raise ``InvalidRequest`` for a block size that the kernels of ``backend`` cannot read."""
    if backend == "triton" and (block_size not in BLOCK_SIZES or (kv_has_scales and block_size % 2)):
        even = " and even with an 8-bit kv_dtype" if kv_has_scales else ""
        raise InvalidRequest("block_size", f"{BLOCK_SIZES.start} to {BLOCK_SIZES.stop - 1}{even} on CUDA", block_size)


def check_format(form: str, device: torch.device) -> None:
    """Raise ``InvalidRequest`` for a weight format that ``device`` cannot convert."""
    if form == "fp8" and device.type == "cuda" and torch.cuda.get_device_capability(device) < (8, 9):
        raise InvalidRequest("quantize", "int8 or int4 on this GPU: fp8 needs compute capability 8.9", form)


def _allocate(spec: ModelSpec, device: torch.device, backend: str) -> Model:
    if backend == "triton":
        try:
            check_supported(spec.head_dim, spec.num_q_heads, spec.num_kv_heads, BLOCK_SIZES.start)
        except ValueError as error:
            raise UnsupportedModel(f"no CUDA kernel for this model: {error}") from None
    free = free_bytes(device)
    if spec.weight_bytes > free:
        need = (
            f"{(spec.weight_bytes - free) / GIB:.2f} GiB (weights {spec.weight_bytes / GIB:.2f}, free {free / GIB:.2f})"
        )
        raise OutOfMemory("the size of the model, or its dtype,", need)
    return Model(spec, device)
