"""Rotary embedding, optional per-head q/k norm and the write into the paged cache, in one pass over the qkv product.

Per token: q and k are normalised per head (Qwen3; skipped for Llama), rotated by the token's position (pairs are
(i, i + D/2), as in Hugging Face's Llama and Qwen), k and v go to their slot of the cache, q comes back. A slot below 0
belongs to padding and writes nothing. An 8-bit cache gets its values quantised, with a scale per token and head
(``kernels.kv_format``), in the same pass.

Fused because each value is touched once: every element of qkv is read once and written once. Four separate passes
(norm, rotate, write k, write v) would move about three times the bytes and launch four times.
"""

import torch

from kernels.backend import (
    check_rows,
    check_same_device,
    dependent_launch,
    jit,
    tl,
    triton,
    use_triton,
    wait_for_inputs,
)
from kernels.kv_format import LARGEST, check_scales, quantise_reference, store_quantised
from kernels.rmsnorm import rmsnorm_reference


def rope_write_kv_reference(
    qkv: torch.Tensor,
    positions: torch.Tensor,
    slots: torch.Tensor,
    cos_sin: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    q_norm: torch.Tensor | None = None,
    k_norm: torch.Tensor | None = None,
    eps: float = 1e-6,
    *,
    num_q_heads: int,
    num_kv_heads: int,
    k_scale: torch.Tensor | None = None,
    v_scale: torch.Tensor | None = None,
) -> torch.Tensor:
    """What ``rope_write_kv`` computes, in plain PyTorch."""
    heads = qkv.unflatten(-1, (num_q_heads + 2 * num_kv_heads, -1))  # (T, Hq + 2 Hkv, D)
    q, k, v = heads.split((num_q_heads, num_kv_heads, num_kv_heads), dim=1)
    if q_norm is not None:
        q = rmsnorm_reference(q.float(), q_norm, eps)
    if k_norm is not None:
        k = rmsnorm_reference(k.float(), k_norm, eps)
    cos, sin = cos_sin[positions].unsqueeze(1).chunk(2, dim=-1)  # (T, 1, D/2) each
    q, k = _rotate(q.float(), cos, sin), _rotate(k.float(), cos, sin)
    _write(k_cache, k_scale, k, slots)
    _write(v_cache, v_scale, v, slots)
    return q.to(qkv.dtype)


def _rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    low, high = x.chunk(2, dim=-1)
    return torch.cat((low * cos - high * sin, high * cos + low * sin), dim=-1)


def _write(cache: torch.Tensor, scale: torch.Tensor | None, x: torch.Tensor, slots: torch.Tensor) -> None:
    real = slots >= 0
    if not bool(real.all()):
        x, slots = x[real], slots[real]
    block_size = cache.shape[2]
    block, offset = slots // block_size, slots % block_size
    if scale is not None:
        x, scale[block, :, offset] = quantise_reference(x, cache.dtype)
    cache[block, :, offset] = x.to(cache.dtype)


@jit
def _norm_rotate(row, inside, norm_ptr, col, half, cos, sin, eps, NORM: tl.constexpr):
    """Load a head of several tokens as two halves (TOKENS, HALF); RMSNorm (optional) and rotation, in fp32."""
    low = tl.load(row, mask=inside, other=0.0).to(tl.float32)
    high = tl.load(row + half, mask=inside, other=0.0).to(tl.float32)
    if NORM:
        scale = tl.rsqrt((tl.sum(low * low, axis=1) + tl.sum(high * high, axis=1)) / (2 * half) + eps)[:, None]
        low *= scale * tl.load(norm_ptr + col, mask=col < half, other=0.0).to(tl.float32)
        high *= scale * tl.load(norm_ptr + half + col, mask=col < half, other=0.0).to(tl.float32)
    return low * cos - high * sin, high * cos + low * sin


@jit
def _store_halves(at, low, high, half, inside):
    """Store a head in the dtype of where it goes."""
    tl.store(at, low.to(at.dtype.element_ty), mask=inside)
    tl.store(at + half, high.to(at.dtype.element_ty), mask=inside)


@jit
def _rope_write_kv_kernel(
    qkv_ptr, position_ptr, slot_ptr, cos_sin_ptr, q_norm_ptr, k_norm_ptr, q_ptr, k_cache_ptr, v_cache_ptr,
    k_scale_ptr, v_scale_ptr, num_tokens, qkv_stride, cos_sin_stride, eps,
    k_stride_block, k_stride_head, k_stride_token, v_stride_block, v_stride_head, v_stride_token,
    NUM_KV_HEADS: tl.constexpr, GROUP: tl.constexpr, HEAD_DIM: tl.constexpr, HALF_PAD: tl.constexpr,
    BLOCK_SIZE: tl.constexpr, NORM: tl.constexpr, TOKENS: tl.constexpr, LARGEST: tl.constexpr,
    DEPENDENT: tl.constexpr,
):  # fmt: skip
    """TOKENS tokens and one KV head per program: GROUP q heads, one k head and one v head.

    ``LARGEST``: of the 8-bit format of the cache; 0: values are stored as they are.
    """
    token, kv_head = tl.program_id(0) * TOKENS + tl.arange(0, TOKENS), tl.program_id(1)
    HALF: tl.constexpr = HEAD_DIM // 2
    col = tl.arange(0, HALF_PAD)[None, :]
    wait_for_inputs(DEPENDENT)
    position = tl.load(position_ptr + token, mask=token < num_tokens, other=0).to(tl.int64)[:, None]
    slot = tl.load(slot_ptr + token, mask=token < num_tokens, other=-1).to(tl.int64)[:, None]
    token = token.to(tl.int64)[:, None]
    inside, real = (token < num_tokens) & (col < HALF), (slot >= 0) & (col < HALF)
    cos = tl.load(cos_sin_ptr + position * cos_sin_stride + col, mask=inside, other=0.0)
    sin = tl.load(cos_sin_ptr + position * cos_sin_stride + HALF + col, mask=inside, other=0.0)

    row = qkv_ptr + token * qkv_stride + col
    for member in tl.static_range(GROUP):
        head = (kv_head * GROUP + member) * HEAD_DIM
        low, high = _norm_rotate(row + head, inside, q_norm_ptr, col, HALF, cos, sin, eps, NORM)
        q_at = q_ptr + token * (NUM_KV_HEADS * GROUP * HEAD_DIM) + head + col
        _store_halves(q_at, low, high, HALF, inside)

    k_in = row + (NUM_KV_HEADS * GROUP + kv_head) * HEAD_DIM
    v_in = k_in + NUM_KV_HEADS * HEAD_DIM
    block, offset = slot // BLOCK_SIZE, slot % BLOCK_SIZE
    low, high = _norm_rotate(k_in, inside, k_norm_ptr, col, HALF, cos, sin, eps, NORM)
    k_at = k_cache_ptr + block * k_stride_block + kv_head * k_stride_head + offset * k_stride_token + col
    v_low, v_high = tl.load(v_in, mask=real, other=0.0), tl.load(v_in + HALF, mask=real, other=0.0)
    v_at = v_cache_ptr + block * v_stride_block + kv_head * v_stride_head + offset * v_stride_token + col
    if LARGEST > 0:
        scale_at = (block * NUM_KV_HEADS + kv_head) * BLOCK_SIZE + offset
        store_quantised(k_at, k_scale_ptr + scale_at, low, high, HALF, real, slot >= 0, LARGEST)
        v_low, v_high = v_low.to(tl.float32), v_high.to(tl.float32)
        store_quantised(v_at, v_scale_ptr + scale_at, v_low, v_high, HALF, real, slot >= 0, LARGEST)
    else:
        _store_halves(k_at, low, high, HALF, real)
        _store_halves(v_at, v_low, v_high, HALF, real)


def tile(num_tokens: int) -> tuple[int, int]:
    """(tokens, warps) of a program. Few tokens: one each, for latency. Many: enough bytes in flight per program."""
    return (1, 1) if num_tokens <= 64 else (8, 4)


def rope_write_kv(
    qkv: torch.Tensor,
    positions: torch.Tensor,
    slots: torch.Tensor,
    cos_sin: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    q_norm: torch.Tensor | None = None,
    k_norm: torch.Tensor | None = None,
    eps: float = 1e-6,
    *,
    num_q_heads: int,
    num_kv_heads: int,
    backend: str | None = None,
    k_scale: torch.Tensor | None = None,
    v_scale: torch.Tensor | None = None,
) -> torch.Tensor:
    """Norm and rotate q and k, write k and v to their slots, return q.

    Args:
        qkv: (T, (Hq + 2 Hkv) D), q heads, then k heads, then v heads; any row stride. Not changed.
        positions: (T,) integers, all within ``cos_sin`` (0 for padding).
        slots: (T,) integers, ``block_id * block_size + offset``; below 0: nothing is written.
        cos_sin: fp32 (max_position, D), cosines of the D/2 frequencies, then sines.
        k_cache, v_cache: (blocks, Hkv, block_size, D), any strides but a contiguous last dimension.
        q_norm, k_norm: (D,) weights of the per-head RMSNorm, or None.
        k_scale, v_scale: fp16 (blocks, Hkv, block_size), contiguous, where the caches are int8 or fp8; else None.

    Returns:
        q, (T, Hq, D), contiguous, of the dtype of ``qkv``.

    Raises:
        ValueError: for a cache and scales that do not belong together; on the Triton path, for a last dimension that
            is not contiguous.
    """
    check_scales(k_cache, v_cache, k_scale, v_scale)
    if not use_triton(backend, qkv):
        return rope_write_kv_reference(
            qkv, positions, slots, cos_sin, k_cache, v_cache, q_norm, k_norm, eps,
            num_q_heads=num_q_heads, num_kv_heads=num_kv_heads, k_scale=k_scale, v_scale=v_scale,
        )  # fmt: skip
    check_rows(qkv=qkv, cos_sin=cos_sin, k_cache=k_cache, v_cache=v_cache, q_norm=q_norm, k_norm=k_norm)
    check_same_device(qkv, positions=positions, slots=slots, cos_sin=cos_sin, k_cache=k_cache, v_cache=v_cache)
    if (q_norm is None) != (k_norm is None):
        raise ValueError("q_norm and k_norm: both or neither")
    num_tokens, head_dim, group = qkv.shape[0], k_cache.shape[3], num_q_heads // num_kv_heads
    q = torch.empty((num_tokens, num_q_heads, head_dim), dtype=qkv.dtype, device=qkv.device)
    if num_tokens:
        unused = cos_sin  # a valid address for weights that are never read
        tokens, warps = tile(num_tokens)
        _rope_write_kv_kernel[(triton.cdiv(num_tokens, tokens), num_kv_heads)](
            qkv, positions, slots, cos_sin, unused if q_norm is None else q_norm, unused if k_norm is None else k_norm,
            q, k_cache, v_cache, unused if k_scale is None else k_scale, unused if v_scale is None else v_scale,
            num_tokens, qkv.stride(0), cos_sin.stride(0), eps,
            *k_cache.stride()[:3], *v_cache.stride()[:3],
            NUM_KV_HEADS=num_kv_heads, GROUP=group, HEAD_DIM=head_dim, HALF_PAD=triton.next_power_of_2(head_dim // 2),
            BLOCK_SIZE=k_cache.shape[2], NORM=q_norm is not None, TOKENS=tokens,
            LARGEST=LARGEST.get(k_cache.dtype, 0.0), num_warps=warps,
            **dependent_launch(qkv),
        )  # fmt: skip
    return q
