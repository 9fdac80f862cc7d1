"""The cases of ``bench kernels`` with an 8-bit KV cache. Their peer is our own kernel on a bf16 cache: the gain."""

from collections.abc import Iterator

import torch

from engine.workload.kernel_case import EPS, HEAD_DIM, Case, random, sets
from kernels.attention import paged_attention, paged_attention_reference
from kernels.kv_format import format_of, quantise_reference
from kernels.rope_kv import rope_write_kv, rope_write_kv_reference

BLOCK_SIZE = 16


def formats_of(device: str) -> list[torch.dtype]:
    """8-bit KV formats that the device has kernels for (fp8: from compute capability 8.9)."""
    converts = device != "cuda" or torch.cuda.get_device_capability() >= (8, 9)
    return [torch.int8, torch.float8_e4m3fn] if converts else [torch.int8]


def quantised_rope_cases(device: str) -> Iterator[Case]:
    """q/k norm + RoPE + quantised write: reads qkv, writes q, k, v and the scales."""
    for kv_dtype in formats_of(device):
        for tokens in (256, 16384) if device == "cuda" else (8,):
            yield _quantised_rope_case(tokens, kv_dtype, device)


def _quantised_rope_case(tokens: int, kv_dtype: torch.dtype, device: str) -> Case:
    q_heads, kv_heads, blocks = 16, 8, tokens // BLOCK_SIZE + 2
    heads = {"num_q_heads": q_heads, "num_kv_heads": kv_heads}
    size = tokens * (2 * (2 * q_heads + 2 * kv_heads) * HEAD_DIM + 2 * kv_heads * (HEAD_DIM + 2))
    inputs = [random(tokens, (q_heads + 2 * kv_heads) * HEAD_DIM, device=device) for _ in range(sets(size, device))]
    positions = torch.arange(tokens, device=device, dtype=torch.int32) % 4096
    where = positions, torch.randperm(tokens, device=device).int() + 16, random(4096, HEAD_DIM, device=device).float()
    norms = [random(HEAD_DIM, device=device) for _ in "qk"]
    plain = list(random(2, blocks, kv_heads, BLOCK_SIZE, HEAD_DIM, device=device))
    (k, k_scale), (v, v_scale) = (quantise_reference(cache, kv_dtype) for cache in plain)
    scales = {"k_scale": k_scale, "v_scale": v_scale}
    return Case(
        f"rope_write_kv {format_of(k)}",
        f"{tokens} tokens, {q_heads}/{kv_heads} heads",
        [lambda x=x: rope_write_kv(x, *where, k, v, *norms, EPS, **heads, **scales) for x in inputs],
        lambda: rope_write_kv_reference(inputs[0], *where, k, v, *norms, EPS, **heads, **scales).float(),
        size,
        peers={"bf16 cache": [lambda x=x: rope_write_kv(x, *where, *plain, *norms, EPS, **heads) for x in inputs]},
    )


def quantised_decode_cases(device: str) -> Iterator[Case]:
    """Decode attention: reads k, v and the scales of all contexts."""
    shapes = [(64, 16, 1024), (64, 16, 4096), (64, 16, 8192), (64, 32, 4096)] if device == "cuda" else [(4, 4, 64)]
    for kv_dtype in formats_of(device):
        for rows, q_heads, context in shapes:
            yield quantised_decode_case(rows, (q_heads, 8 if device == "cuda" else 2), context, kv_dtype, device)


def quantised_decode_case(rows: int, heads: tuple[int, int], context: int, kv_dtype: torch.dtype, device: str) -> Case:
    """Decode attention of ``rows`` rows with ``heads`` (query, KV), each behind ``context`` tokens.

    Its peer ``"bf16 cache"`` reads the same contexts from a bf16 pool.
    """
    q_heads, kv_heads = heads
    table = (torch.randperm(rows * context // BLOCK_SIZE, device=device).int() + 1).view(rows, -1)
    plain = list(random(2, table.numel() + 1, kv_heads, BLOCK_SIZE, HEAD_DIM, device=device))
    (k, k_scale), (v, v_scale) = (quantise_reference(cache, kv_dtype) for cache in plain)
    scales = {"k_scale": k_scale, "v_scale": v_scale}
    starts = torch.arange(rows + 1, device=device, dtype=torch.int32)
    where = table, starts, torch.full((rows,), context, device=device, dtype=torch.int32), HEAD_DIM**-0.5
    queries = [random(rows, q_heads, HEAD_DIM, device=device) for _ in range(2)]  # the cache alone outgrows the L2
    return Case(
        f"decode {format_of(k)}",
        f"{rows} rows x {context}, {q_heads}/{kv_heads} heads",
        [lambda q=q: paged_attention(q, k, v, *where, 1, **scales) for q in queries],
        lambda: paged_attention_reference(queries[0].float(), k, v, *where, **scales),
        2 * rows * context * kv_heads * (HEAD_DIM + 2) + 4 * rows * q_heads * HEAD_DIM,
        peers={"bf16 cache": [lambda q=q: paged_attention(q, *plain, *where, 1) for q in queries]},
    )
