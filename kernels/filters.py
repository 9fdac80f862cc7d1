"""Top-k, top-p and min-p as one number per row: the pivot, the smallest logit that is kept.

Each filter keeps the tokens at or above some logit, so they intersect by taking the largest. Order of definition:
temperature, then top-k, then top-p over what top-k left (renormalised), then min-p relative to the best token.
Equal logits share their fate: a tie at the pivot is kept whole.

No sort on the GPU: "how many tokens, or how much mass, at or above t" falls as t rises, so bisection over the bit
patterns of the logits (ordered as integers) ends at the exact pivot. It rarely needs the row: one pass keeps the four
largest logits of each lane (tokens ``l``, ``l + BLOCK``, ...) in registers. Every token above the largest *fourth* of a
lane is among them, which are several hundred in all, so a pivot up there is found without another read. A pivot further
down (a large top-k, a flat distribution) takes a pass over the row for each step of the bisection.
"""

import numpy as np
import torch

from kernels.backend import check_rows, dependent_launch, jit, tl, wait_for_inputs

BLOCK = 2048


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
def load_tokens(row_ptr, token, end, vocab) -> "tl.tensor":
    """Logits of ``token``, all below ``end``. Unmasked where possible: a mask of odd width splits wide loads."""
    if end <= vocab:
        x = tl.load(row_ptr + token)
    else:
        x = tl.load(row_ptr + token, mask=token < vocab, other=float("-inf"))
    return x


@jit
def _load_logits(row_ptr, start, vocab, BLOCK: tl.constexpr):
    """BLOCK logits as fp32; NaN and lanes past the vocabulary are -inf, -0 is 0."""
    x = load_tokens(row_ptr, start + tl.arange(0, BLOCK), start + BLOCK, vocab).to(tl.float32)
    return tl.where(x == x, x, float("-inf")) + 0.0


@jit
def _insert(x, m0, m1, m2, m3):
    """Each lane's four largest values, largest first, with one more value."""
    rest0 = tl.minimum(m0, x)
    rest1 = tl.minimum(m1, rest0)
    rest2 = tl.minimum(m2, rest1)
    return tl.maximum(m0, x), tl.maximum(m1, rest0), tl.maximum(m2, rest1), tl.maximum(m3, rest2)


@jit
def _largest_of_lanes(row_ptr, vocab, BLOCK: tl.constexpr):
    """The four largest logits of each lane, as (BLOCK, 2, 2), the largest of all, and the largest fourth."""
    m0 = tl.full((BLOCK,), float("-inf"), tl.float32)
    m1, m2, m3 = m0, m0, m0
    whole = vocab // (4 * BLOCK) * (4 * BLOCK)
    for start in range(0, whole, 4 * BLOCK):
        for part in tl.static_range(4):  # four loads in flight
            x = tl.load(row_ptr + start + part * BLOCK + tl.arange(0, BLOCK)).to(tl.float32)
            m0, m1, m2, m3 = _insert(tl.where(x == x, x, float("-inf")) + 0.0, m0, m1, m2, m3)
    for start in range(whole, vocab, BLOCK):
        m0, m1, m2, m3 = _insert(_load_logits(row_ptr, start, vocab, BLOCK), m0, m1, m2, m3)
    return tl.join(tl.join(m0, m1), tl.join(m2, m3)), tl.max(m0, axis=0), tl.max(m3, axis=0)


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
def _search_near(keys, weight, low, high, target):
    """``_search`` among the largest of the lanes, for which the keys and weights are in registers."""
    while high - low > 1:
        middle = low + (high - low) // 2
        reached = tl.sum(tl.where(keys >= middle.to(tl.int32), weight, 0.0)) >= target
        low, high = tl.where(reached, middle, low), tl.where(reached, high, middle)
    return low


@jit
def _pivots_kernel(
    logits_ptr, temperature_ptr, top_k_ptr, top_p_ptr, min_p_ptr, pivot_ptr, vocab, logits_stride,
    SHIFT: tl.constexpr, BLOCK: tl.constexpr, DEPENDENT: tl.constexpr,
):  # fmt: skip
    """One row per program. Rows that do not filter stop at once."""
    row = tl.program_id(0).to(tl.int64)
    row_ptr = logits_ptr + row * logits_stride
    wait_for_inputs(DEPENDENT)
    temperature = tl.load(temperature_ptr + row)
    top_k, top_p, min_p = tl.load(top_k_ptr + row), tl.load(top_p_ptr + row), tl.load(min_p_ptr + row)
    limits_count, limits_mass = (top_k >= 1) & (top_k < vocab), top_p < 1.0
    tl.store(pivot_ptr + row, float("-inf"))
    if (temperature > 0) & (limits_count | limits_mass | (min_p > 0)):
        temperature = tl.maximum(temperature, 1.1754943508222875e-38)
        near, best, fourth = _largest_of_lanes(row_ptr, vocab, BLOCK)
        keys = _to_key(near, SHIFT)
        known = _to_key(fourth, SHIFT).to(tl.int64) + 1  # from this key on, no token is missing in ``near``
        lowest: tl.constexpr = (-0x800000 >> SHIFT) ^ (0x7FFFFFFF >> SHIFT)  # the key of -inf
        low, high = known * 0 + lowest, _to_key(best, SHIFT).to(tl.int64) + 1
        pivot = float("-inf")
        if limits_count:
            one, count = tl.full(near.shape, 1.0, tl.float32), top_k.to(tl.float32)
            if tl.sum(tl.where(keys >= known.to(tl.int32), one, 0.0)) >= count:
                low = _search_near(keys, one, known, high, count)
            else:
                low = _search(row_ptr, vocab, low, known, count, best, temperature, False, SHIFT, BLOCK)
            pivot = _to_logit(low.to(tl.int32), SHIFT)
        if limits_mass:
            weight = tl.exp((near - best) / temperature)
            if low >= known:
                mass = tl.sum(tl.where(keys >= low.to(tl.int32), weight, 0.0))
            else:
                mass = _at_or_above(row_ptr, vocab, low.to(tl.int32), best, temperature, True, SHIFT, BLOCK)
            enough, least = top_p * mass, tl.maximum(low, known)
            if tl.sum(tl.where(keys >= least.to(tl.int32), weight, 0.0)) >= enough:
                low = _search_near(keys, weight, least, high, enough)
            else:
                low = _search(row_ptr, vocab, low, least, enough, best, temperature, True, SHIFT, BLOCK)
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
        logits, temperature, top_k, top_p, min_p, pivot, vocab, logits.stride(0),
        SHIFT=shift, BLOCK=BLOCK, num_warps=8, **dependent_launch(logits),
    )  # fmt: skip
    return pivot
