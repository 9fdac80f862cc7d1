"""Shapes for random weights: the dimensions of public models, so that speed can be measured without a download.

Their text means nothing; every dimension, and so every byte and product of a step, is the real one.
"""

import torch

from engine.worker.rope import RopeSpec
from engine.worker.spec import ModelSpec

_LLAMA3_ROPE = {"theta": 500_000.0, "rule": "llama3", "original_positions": 8192}


def _shape(
    family: str,
    hidden: int,
    layers: int,
    heads: tuple[int, int, int],
    inner: int,
    vocab: int,
    tied: bool,
    positions: int,
    rope: RopeSpec,
) -> dict[str, object]:
    q_heads, kv_heads, head_dim = heads
    return {
        "family": family,
        "hidden_size": hidden,
        "num_layers": layers,
        "num_q_heads": q_heads,
        "num_kv_heads": kv_heads,
        "head_dim": head_dim,
        "intermediate_size": inner,
        "vocab_size": vocab,
        "tied": tied,
        "max_positions": positions,
        "rope": rope,
        "rms_eps": 1e-6 if family == "qwen3" else 1e-5,
        "qk_norm": family == "qwen3",
    }


_ROPE_1M = RopeSpec(1e6)
SHAPES: dict[str, dict[str, object]] = {
    "tiny": _shape("llama", 64, 2, (4, 2, 64), 128, 512, True, 2048, RopeSpec(10_000.0)),
    "qwen3-0.6b": _shape("qwen3", 1024, 28, (16, 8, 128), 3072, 151_936, True, 40_960, _ROPE_1M),
    "llama-3.2-1b": _shape(
        "llama", 2048, 16, (32, 8, 64), 8192, 128_256, True, 131_072, RopeSpec(factor=32.0, **_LLAMA3_ROPE)
    ),
    "llama-3.1-8b": _shape(
        "llama", 4096, 32, (32, 8, 128), 14_336, 128_256, False, 131_072, RopeSpec(factor=8.0, **_LLAMA3_ROPE)
    ),
    "qwen3-8b": _shape("qwen3", 4096, 36, (32, 8, 128), 12_288, 151_936, False, 40_960, _ROPE_1M),
}


def random_spec(shape: str, dtype: torch.dtype, kv_dtype: torch.dtype, max_model_len: int) -> ModelSpec:
    """The spec of a model with random weights. It has no end-of-sequence id, so answers end by length."""
    numbers = SHAPES[shape]
    return ModelSpec(
        name=f"{shape} (random weights)",
        num_token_ids=numbers["vocab_size"],
        max_model_len=min(max_model_len, numbers["max_positions"]),
        eos_ids=frozenset(),
        qkv_bias=False,
        o_bias=False,
        mlp_bias=False,
        dtype=dtype,
        kv_dtype=kv_dtype,
        **numbers,
    )
