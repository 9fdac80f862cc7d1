"""Choosing the next token, and the penalties before it.

Gumbel-max: ``argmax(logits + temperature * noise)`` with Gumbel noise is a draw from ``softmax(logits / temperature)``.
One pass over the logits, no softmax, no sort, no sum; temperature 0 is plain argmax with no branch and no division.
Noise: see ``kernels.philox``. Top-k, top-p and min-p each keep the tokens at or above some logit (``kernels.filters``),
so the largest of the three pivots filters for all. Reads each logit once, V * 2 bytes a row in bf16, plus the filters'
passes when there are any.
"""

import torch

from kernels.backend import check_rows, check_same_device, jit, tl, triton, use_triton
from kernels.filters import launch_pivots, pivots_reference
from kernels.philox import LANE, gumbel, gumbel_of_bits, token_bits


def sample_reference(
    logits: torch.Tensor,
    temperature: torch.Tensor,
    top_k: torch.Tensor,
    top_p: torch.Tensor,
    min_p: torch.Tensor,
    seeds: torch.Tensor,
    positions: torch.Tensor,
    plain: bool,
) -> torch.Tensor:
    """What ``sample`` computes, in plain PyTorch."""
    scores = torch.nan_to_num(logits.float(), nan=float("-inf"), posinf=float("inf"), neginf=float("-inf"))
    if not plain:
        pivot = pivots_reference(scores, temperature, top_k, top_p, min_p).unsqueeze(1)
        scores = scores.masked_fill(scores < pivot, float("-inf"))
    hot = (temperature > 0).nonzero().squeeze(1)
    if len(hot):
        noise = gumbel(token_bits(seeds[hot], positions[hot], logits.shape[1]))
        scores = scores.index_add(0, hot, noise.mul_(temperature[hot].unsqueeze(1)))
    return scores.argmax(dim=-1).int()


@jit
def _better(best, best_token, logits, token, bits, temperature, pivot, vocab, NOISE: tl.constexpr):
    """Fold LANE tokens into the running best of each lane; earlier tokens win ties."""
    x = tl.load(logits + token, mask=token < vocab, other=float("-inf")).to(tl.float32)
    score = tl.where((x == x) & (x >= pivot), x, float("-inf"))
    if NOISE:
        score += temperature * gumbel_of_bits(bits)
    return tl.where(score > best, score, best), tl.where(score > best, token, best_token)


@jit
def _span_best(logits, span, seed, position, temperature, pivot, vocab, LANE: tl.constexpr, NOISE: tl.constexpr):
    """The best (score, token) of one span of 4 LANE tokens, the smallest token among equals."""
    lane = tl.arange(0, LANE)
    token = span * (4 * LANE) + lane
    w0, w1, w2, w3 = token, token, token, token  # not read without noise
    if NOISE:
        call = (span * LANE + lane).to(tl.uint32)
        zero = tl.zeros((LANE,), tl.uint32)
        w0, w1, w2, w3 = tl.philox(seed, call, zero + position.to(tl.uint32), zero, zero)
    best, winner = tl.full((LANE,), float("-inf"), tl.float32), token
    best, winner = _better(best, winner, logits, token, w0, temperature, pivot, vocab, NOISE)
    best, winner = _better(best, winner, logits, token + LANE, w1, temperature, pivot, vocab, NOISE)
    best, winner = _better(best, winner, logits, token + 2 * LANE, w2, temperature, pivot, vocab, NOISE)
    best, winner = _better(best, winner, logits, token + 3 * LANE, w3, temperature, pivot, vocab, NOISE)
    top = tl.max(best, axis=0)
    return top, tl.min(tl.where(best == top, winner, 2147483647), axis=0)


@jit
def _sample_kernel(
    logits_ptr, temperature_ptr, seed_ptr, position_ptr, pivot_ptr, score_ptr, token_ptr, vocab, logits_stride,
    LANE: tl.constexpr, FILTER: tl.constexpr,
):  # fmt: skip
    """One span of one row per program; a greedy row skips the noise."""
    row, span = tl.program_id(0).to(tl.int64), tl.program_id(1)
    logits = logits_ptr + row * logits_stride
    temperature = tl.load(temperature_ptr + row)
    seed, position = tl.load(seed_ptr + row), tl.load(position_ptr + row)
    pivot = float("-inf")
    if FILTER:
        pivot = tl.load(pivot_ptr + row)
    if temperature > 0:
        score, token = _span_best(logits, span, seed, position, temperature, pivot, vocab, LANE, True)
    else:
        score, token = _span_best(logits, span, seed, position, temperature, pivot, vocab, LANE, False)
    out = row * tl.num_programs(1) + span
    tl.store(score_ptr + out, score)
    tl.store(token_ptr + out, token)


@jit
def _sample_reduce_kernel(score_ptr, token_ptr, out_ptr, spans, SPANS_PAD: tl.constexpr):
    """The best of a row's spans, the smallest token among equals."""
    row, span = tl.program_id(0).to(tl.int64), tl.arange(0, SPANS_PAD)
    score = tl.load(score_ptr + row * spans + span, mask=span < spans, other=float("-inf"))
    token = tl.load(token_ptr + row * spans + span, mask=span < spans, other=2147483647)
    best = tl.max(score, axis=0)
    tl.store(out_ptr + row, tl.min(tl.where(score == best, token, 2147483647), axis=0))


def sample(
    logits: torch.Tensor,
    temperature: torch.Tensor,
    top_k: torch.Tensor,
    top_p: torch.Tensor,
    min_p: torch.Tensor,
    seeds: torch.Tensor,
    positions: torch.Tensor,
    plain: bool,
    backend: str | None = None,
) -> torch.Tensor:
    """One token id per row.

    Args:
        logits: (R, V), any float dtype, any row stride. NaN counts as -inf. Pass ``logits[:, :vocab]`` when the head is
            wider than the vocabulary, and its tail is never chosen.
        temperature: (R,) fp32, at least 0; 0 is greedy (the smallest id among equals).
        top_k: (R,) integers; below 1 or above V: all.
        top_p, min_p: (R,) fp32; at least 1, or at most 0: all.
        seeds, positions: (R,) int64 and integers: the random stream's key. No other row, and no order, matters.
        plain: True when no row filters; the three filter arguments are then not read.

    Returns:
        (R,) int32.
    """
    if not use_triton(backend, logits):
        return sample_reference(logits, temperature, top_k, top_p, min_p, seeds, positions, plain)
    check_rows(logits=logits, temperature=temperature, seeds=seeds, positions=positions)
    check_same_device(logits, temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p, seeds=seeds)
    rows, vocab = logits.shape
    out = torch.empty(rows, dtype=torch.int32, device=logits.device)
    if rows:
        pivot = temperature if plain else launch_pivots(logits, temperature, top_k, top_p, min_p)
        spans = triton.cdiv(vocab, 4 * LANE)
        score = torch.empty((rows, spans), dtype=torch.float32, device=logits.device)
        token = torch.empty((rows, spans), dtype=torch.int32, device=logits.device)
        _sample_kernel[(rows, spans)](
            logits, temperature, seeds, positions, pivot, score, token, vocab, logits.stride(0),
            LANE=LANE, FILTER=not plain, num_warps=4,
        )  # fmt: skip
        _sample_reduce_kernel[(rows,)](score, token, out, spans, SPANS_PAD=triton.next_power_of_2(spans), num_warps=1)
    return out


def apply_penalties_reference(
    logits: torch.Tensor,
    counts: torch.Tensor,
    prompt_mask: torch.Tensor,
    repetition: torch.Tensor,
    presence: torch.Tensor,
    frequency: torch.Tensor,
) -> None:
    """What ``apply_penalties`` computes, in plain PyTorch."""
    x, factor = logits.float(), repetition.unsqueeze(1)
    repeated = torch.where(x > 0, x / factor, x * factor)
    x = torch.where(prompt_mask.bool() | (counts > 0), repeated, x)
    x = x - frequency.unsqueeze(1) * counts - presence.unsqueeze(1) * (counts > 0)
    logits.copy_(x)


@jit
def _penalties_kernel(
    logits_ptr, count_ptr, prompt_ptr, repetition_ptr, presence_ptr, frequency_ptr, vocab,
    logits_stride, count_stride, prompt_stride, BLOCK: tl.constexpr,
):  # fmt: skip
    """BLOCK tokens of one row per program; a row without penalties moves nothing."""
    row, token = tl.program_id(0).to(tl.int64), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    repetition = tl.load(repetition_ptr + row)
    presence, frequency = tl.load(presence_ptr + row), tl.load(frequency_ptr + row)
    if (repetition != 1.0) | (presence != 0.0) | (frequency != 0.0):
        inside = token < vocab
        x = tl.load(logits_ptr + row * logits_stride + token, mask=inside, other=0.0).to(tl.float32)
        count = tl.load(count_ptr + row * count_stride + token, mask=inside, other=0)
        prompt = tl.load(prompt_ptr + row * prompt_stride + token, mask=inside, other=0) != 0
        repeated = tl.where(x > 0, x / repetition, x * repetition)
        x = tl.where(prompt | (count > 0), repeated, x)
        x -= frequency * count.to(tl.float32) + tl.where(count > 0, presence, 0.0)
        tl.store(logits_ptr + row * logits_stride + token, x.to(logits_ptr.dtype.element_ty), mask=inside)


def apply_penalties(
    logits: torch.Tensor,
    counts: torch.Tensor,
    prompt_mask: torch.Tensor,
    repetition: torch.Tensor,
    presence: torch.Tensor,
    frequency: torch.Tensor,
    backend: str | None = None,
) -> None:
    """Lower the logits of tokens already used, in place.

    Tokens of prompt or output: positive logits divided, negative ones multiplied by ``repetition`` (1: off). Tokens of
    the output: less ``presence`` once and ``frequency`` per occurrence (0: off; OpenAI's definitions).

    Args:
        logits: (R, V), any float dtype, any row stride.
        counts: (R, V) int32, occurrences in the output.
        prompt_mask: (R, V) bool or int8, non-zero where the prompt holds the token.
        repetition, presence, frequency: (R,) fp32.
    """
    if not use_triton(backend, logits):
        apply_penalties_reference(logits, counts, prompt_mask, repetition, presence, frequency)
        return
    check_rows(logits=logits, counts=counts, prompt_mask=prompt_mask)
    check_same_device(logits, counts=counts, prompt_mask=prompt_mask, repetition=repetition)
    rows, vocab = logits.shape
    if rows:
        _penalties_kernel[(rows, triton.cdiv(vocab, 1024))](
            logits, counts, prompt_mask, repetition, presence, frequency, vocab,
            logits.stride(0), counts.stride(0), prompt_mask.stride(0), BLOCK=1024, num_warps=4,
        )  # fmt: skip
