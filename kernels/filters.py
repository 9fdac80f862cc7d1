"""Top-k, top-p and min-p as one number per row: the pivot, the smallest logit that is kept.

Each filter keeps the tokens at or above some logit, so they intersect by taking the largest. Order of definition:
temperature, then top-k, then top-p over what top-k left (renormalised), then min-p relative to the best token.
Equal logits share their fate: a tie at the pivot is kept whole.

No sort on the GPU: "how many tokens, or how much mass, at or above t" falls as t rises, so bisection over the bit
patterns of the logits (ordered as integers) ends at the exact pivot: 16 passes for bf16, 32 for fp32, over a row that
stays in the L2 cache.
"""

import numpy as np
import torch

from kernels.backend import check_rows, jit, tl

BLOCK = 4096


def pivots_reference(
    logits: torch.Tensor,
    temperature: torch.Tensor,
    top_k: torch.Tensor,
    top_p: torch.Tensor,
    min_p: torch.Tensor,
) -> torch.Tensor:
    """What ``pivots`` computes, in plain PyTorch, with a sort."""
    rows, vocab = logits.shape
    x = _descending(logits.float())
    best = x[:, :1]
    everything = torch.full((rows,), float("-inf"), device=x.device)
    k = torch.where(top_k < 1, vocab, top_k).clamp(max=vocab).long() - 1
    at_k = torch.where(k + 1 < vocab, x.gather(1, k.unsqueeze(1)).squeeze(1), everything)
    scaled = (x - best) / temperature.clamp(min=torch.finfo(torch.float32).tiny).unsqueeze(1)
    weight = scaled.exp().masked_fill(x < at_k.unsqueeze(1), 0.0)  # ties with the k-th token included
    mass = weight.cumsum(1)
    enough = (mass < top_p.unsqueeze(1) * mass[:, -1:]).sum(1, keepdim=True).clamp(max=vocab - 1)
    at_p = torch.where(top_p < 1, x.gather(1, enough).squeeze(1), everything)
    at_min = torch.where(min_p > 0, best.squeeze(1) + temperature * min_p.log(), everything)
    pivot = torch.maximum(torch.maximum(at_k, at_p), at_min)
    return torch.where(temperature > 0, torch.minimum(pivot, best.squeeze(1)), everything)


def _descending(x: torch.Tensor) -> torch.Tensor:
    """The values of each row, largest first."""
    if x.device.type == "cpu":  # numpy needs 0.04 ms for 8 rows of 4,096; torch.sort, which carries indices, 1.5 ms
        return torch.from_numpy(-np.sort(-x.numpy(), axis=-1))
    return x.sort(dim=-1, descending=True).values


@jit
def _load_logits(row_ptr, start, vocab, BLOCK: tl.constexpr):
    """BLOCK logits as fp32; NaN and lanes past the vocabulary are -inf, -0 is 0."""
    token = start + tl.arange(0, BLOCK)
    x = tl.load(row_ptr + token, mask=token < vocab, other=float("-inf")).to(tl.float32)
    return tl.where(x == x, x, float("-inf")) + 0.0


@jit
def _to_key(x, SHIFT: tl.constexpr):
    """fp32 to int32 of the same order; SHIFT drops the low bits that a 16-bit logit cannot have."""
    bits = x.to(tl.int32, bitcast=True) >> SHIFT
    return bits ^ ((bits >> 31) & (0x7FFFFFFF >> SHIFT))


@jit
def _to_logit(key, SHIFT: tl.constexpr):
    """The inverse of ``_to_key``."""
    bits = (key ^ ((key >> 31) & (0x7FFFFFFF >> SHIFT))) << SHIFT
    return bits.to(tl.float32, bitcast=True)


@jit
def _at_or_above(row_ptr, vocab, key, best, temperature, MASS: tl.constexpr, SHIFT: tl.constexpr, BLOCK: tl.constexpr):
    """Number of tokens with at least this key, or their mass relative to the best token."""
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, vocab, BLOCK):
        x = _load_logits(row_ptr, start, vocab, BLOCK)
        weight = tl.exp((x - best) / temperature) if MASS else tl.full((BLOCK,), 1.0, tl.float32)
        inside = (_to_key(x, SHIFT) >= key) & (start + tl.arange(0, BLOCK) < vocab)
        total += tl.where(inside, weight, 0.0)
    return tl.sum(total, axis=0)


@jit
def _search(
    row_ptr, vocab, low, high, target, best, temperature,
    MASS: tl.constexpr, SHIFT: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The largest key in ``low .. high - 1`` whose tokens reach ``target``, given that those of ``low`` do."""
    while high - low > 1:
        middle = low + (high - low) // 2
        reached = _at_or_above(row_ptr, vocab, middle.to(tl.int32), best, temperature, MASS, SHIFT, BLOCK) >= target
        low, high = tl.where(reached, middle, low), tl.where(reached, high, middle)
    return low


@jit
def _pivots_kernel(
    logits_ptr, temperature_ptr, top_k_ptr, top_p_ptr, min_p_ptr, pivot_ptr, vocab, logits_stride,
    SHIFT: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """One row per program. Rows that do not filter stop at once."""
    row = tl.program_id(0).to(tl.int64)
    row_ptr = logits_ptr + row * logits_stride
    temperature = tl.load(temperature_ptr + row)
    top_k, top_p, min_p = tl.load(top_k_ptr + row), tl.load(top_p_ptr + row), tl.load(min_p_ptr + row)
    limits_count, limits_mass = (top_k >= 1) & (top_k < vocab), top_p < 1.0
    tl.store(pivot_ptr + row, float("-inf"))
    if (temperature > 0) & (limits_count | limits_mass | (min_p > 0)):
        temperature = tl.maximum(temperature, 1.1754943508222875e-38)
        top, bottom = tl.full((BLOCK,), float("-inf"), tl.float32), tl.full((BLOCK,), float("inf"), tl.float32)
        for start in range(0, vocab, BLOCK):
            x = _load_logits(row_ptr, start, vocab, BLOCK)
            top = tl.maximum(top, x)
            bottom = tl.minimum(bottom, tl.where(start + tl.arange(0, BLOCK) < vocab, x, float("inf")))
        best = tl.max(top, axis=0)
        low = _to_key(tl.min(bottom, axis=0), SHIFT).to(tl.int64)
        high = _to_key(best, SHIFT).to(tl.int64) + 1
        pivot = float("-inf")
        if limits_count:
            low = _search(row_ptr, vocab, low, high, top_k.to(tl.float32), best, temperature, False, SHIFT, BLOCK)
            pivot = _to_logit(low.to(tl.int32), SHIFT)
        if limits_mass:
            mass = top_p * _at_or_above(row_ptr, vocab, low.to(tl.int32), best, temperature, True, SHIFT, BLOCK)
            low = _search(row_ptr, vocab, low, high, mass, best, temperature, True, SHIFT, BLOCK)
            pivot = _to_logit(low.to(tl.int32), SHIFT)
        if min_p > 0:
            pivot = tl.maximum(pivot, tl.minimum(best + temperature * tl.log(min_p), best))
        tl.store(pivot_ptr + row, pivot)


def launch_pivots(
    logits: torch.Tensor,
    temperature: torch.Tensor,
    top_k: torch.Tensor,
    top_p: torch.Tensor,
    min_p: torch.Tensor,
) -> torch.Tensor:
    """``pivots_reference`` by bisection: (R,) fp32, -inf where a row keeps everything."""
    check_rows(logits=logits, temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p)
    rows, vocab = logits.shape
    pivot = torch.empty(rows, dtype=torch.float32, device=logits.device)
    shift = {torch.bfloat16: 16, torch.float16: 13}.get(logits.dtype, 0)
    _pivots_kernel[(rows,)](
        logits, temperature, top_k, top_p, min_p, pivot, vocab, logits.stride(0), SHIFT=shift, BLOCK=BLOCK, num_warps=16
    )
    return pivot
