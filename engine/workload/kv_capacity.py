"""What a KV dtype is worth in memory: bytes of a token, counted on real pools and by formula for larger models."""

from collections.abc import Sequence
from dataclasses import replace

from engine.loading import load_model
from engine.provenance import device_name
from engine.worker.checkpoint import KV_DTYPES
from engine.worker.kv_cache import KVCache
from engine.worker.shapes import SHAPES, random_spec
from engine.worker.spec import SCALE_BYTES
from engine.workload.drive import Progress, silent
from engine.workload.limits import shape_of
from engine.workload.sweeps import kv_name, sweep_config

BITS = {"fp32": 32, "bf16": 16, "fp16": 16, "int8": 8, "fp8": 8, "int4": 4}
SCALED = ("int8", "fp8", "int4")  # with an fp16 scale per token and head
BLOCKS, BLOCK_SIZE = 64, 16  # of the pools that are counted


def kv_capacity(kv_dtypes: Sequence[str], progress: Progress = silent) -> dict:
    """Pools of the bundled model in each of ``kv_dtypes``, allocated and counted; larger models by formula.

    Returns:
        ``device``, ``plain`` (the model's own KV dtype), ``head_dim``, ``heads`` (key and value heads of all layers),
        ``weight_bytes``, ``token_bytes`` (by KV dtype: pool bytes / its tokens) and ``shapes``: by name ``head_dim``,
        ``heads`` and ``weight_bytes`` (bf16; what a step reads).
    """
    model = load_model(sweep_config(None, 1, 64), (), lambda what, done: progress(what, 0.9 * done))
    try:
        worker, spec = model.worker, model.worker.spec
        held = {}
        for name in kv_dtypes:
            pool = KVCache(replace(spec, kv_dtype=KV_DTYPES[name]), BLOCKS, BLOCK_SIZE, worker.device)
            held[name] = pool.num_bytes / ((BLOCKS + 1) * BLOCK_SIZE)
        known = {"device": device_name(worker.device), "plain": kv_name(spec.dtype), "token_bytes": held}
        return known | {"shapes": _shapes()} | _facts(spec)
    finally:
        model.close()


def head_bytes(kv_dtype: str, head_dim: int) -> tuple[float, int]:
    """Bytes of the numbers and of the scale that one head of one token takes, of its keys or of its values."""
    return head_dim * BITS[kv_dtype] / 8, SCALE_BYTES if kv_dtype in SCALED else 0


def _shapes() -> dict[str, dict]:
    bf16 = KV_DTYPES["bf16"]
    return {name: _facts(random_spec(name, bf16, bf16, 4096)) for name in SHAPES if name != "tiny"}


def _facts(spec: object) -> dict:
    heads = 2 * spec.num_layers * spec.num_kv_heads
    return {"head_dim": spec.head_dim, "heads": heads, "weight_bytes": shape_of(spec).streamed_bytes}
