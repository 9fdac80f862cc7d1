"""Choosing the next token.

Gumbel-max: ``argmax(logits + temperature * noise)`` with Gumbel noise is a draw from ``softmax(logits / temperature)``.
No softmax over the row, no sort, one pass; temperature 0 is plain argmax with no division.

Noise for every token would cost more than reading the logits. The maximum of Gumbel variables is one again, so DEPTH
tokens share it: a group's score is ``temperature * (log(sum of exp(logit / temperature)) + noise)``, and only in the
group that wins is a member drawn, by its share. Noise: see ``kernels.philox``. Top-k, top-p and min-p each keep the
tokens at or above some logit (``kernels.filters``), so the largest of the three pivots filters for all.

    span = DEPTH * LANE tokens, one program     group l of a span = its tokens l, l + LANE, l + 2 LANE, ...
"""

import torch
from torch.nn import functional

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
from kernels.filters import launch_pivots, load_tokens, pivots_reference
from kernels.philox import group_bits, group_words, gumbel, gumbel_of_bits, member_bits, member_word

LANE = 256  # groups of a span
DEPTH = 16  # tokens of a group
LARGEST = 3.0e38  # logits are cut to this magnitude, NaN to its negative: no infinities to subtract


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
    scores = logits.float().nan_to_num(nan=-LARGEST).clamp(-LARGEST, LARGEST)
    if not plain:
        pivot = pivots_reference(scores, temperature, top_k, top_p, min_p).unsqueeze(1)
        scores = scores.masked_fill(scores < pivot, -LARGEST)
    tokens = scores.argmax(dim=-1)
    hot = (temperature > 0).nonzero().squeeze(1)
    if len(hot):
        tokens[hot] = _draw_reference(scores[hot], temperature[hot], seeds[hot], positions[hot])
    return tokens.int()


def _draw_reference(
    scores: torch.Tensor, temperature: torch.Tensor, seeds: torch.Tensor, positions: torch.Tensor
) -> torch.Tensor:
    """Draw a group of each row of ``scores`` (R, V), then a member of it."""
    rows, vocab = scores.shape
    padded = functional.pad(scores, (0, -vocab % (DEPTH * LANE)), value=-LARGEST)
    groups = padded.view(rows, -1, DEPTH, LANE).transpose(2, 3).flatten(1, 2)  # (R, spans * LANE, DEPTH)
    top, heat = groups.amax(2), temperature.unsqueeze(1)
    weight = torch.exp((groups - top.unsqueeze(2)) / heat.unsqueeze(2).clamp(min=1e-30))
    noise = gumbel(group_bits(seeds, positions, top.shape[1]))
    winner = (top + heat * (weight.sum(2).log() + noise)).argmax(1)
    share = weight[torch.arange(rows, device=weight.device), winner].cumsum(1)
    first = winner // LANE * (DEPTH * LANE) + winner % LANE
    drawn = (member_bits(seeds, positions, first) >> 9).float() * 2.0**-23 * share[:, -1]
    return (first + (share <= drawn.unsqueeze(1)).sum(1) * LANE).clamp(max=vocab - 1)


@jit
def _cut(x, pivot, LARGEST: tl.constexpr, FILTER: tl.constexpr):
    """Logits as fp32 within +-LARGEST; NaN and what the filters drop are -LARGEST."""
    x = x.to(tl.float32)
    x = tl.minimum(tl.maximum(x, -LARGEST), LARGEST)  # the maximum of NaN and a number is the number
    return tl.where(x >= pivot, x, -LARGEST) if FILTER else x


@jit
def _sample_kernel(
    logits_ptr, temperature_ptr, seed_ptr, position_ptr, pivot_ptr, score_ptr, token_ptr, vocab, logits_stride,
    LANE: tl.constexpr, DEPTH: tl.constexpr, LARGEST: tl.constexpr, FILTER: tl.constexpr, DEPENDENT: tl.constexpr,
):  # fmt: skip
    """The best group of one span of one row, as the id of its first token; a greedy row skips the noise."""
    row, span = tl.program_id(0).to(tl.int64), tl.program_id(1)
    lane, depth = tl.arange(0, LANE), tl.arange(0, DEPTH)
    wait_for_inputs(DEPENDENT)
    first = span * (LANE * DEPTH) + lane
    row_ptr = logits_ptr + row * logits_stride
    x = load_tokens(row_ptr, first[None, :] + depth[:, None] * LANE, (span + 1) * (LANE * DEPTH), vocab)
    pivot = tl.load(pivot_ptr + row) if FILTER else 0.0
    x = _cut(x, pivot, LARGEST, FILTER)
    score = tl.max(x, axis=0)
    temperature = tl.load(temperature_ptr + row)
    if temperature > 0:
        rate = 1.4426950408889634 / tl.maximum(temperature, 1.0e-30)
        mass = tl.sum(tl.exp2((x - score[None, :]) * rate), axis=0)
        words = group_words(tl.load(seed_ptr + row), tl.load(position_ptr + row), span * (LANE // 4), LANE)
        score += temperature * (tl.log(mass) + gumbel_of_bits(words))
    best = tl.max(score, axis=0)
    out = row * tl.num_programs(1) + span
    tl.store(score_ptr + out, best)
    tl.store(token_ptr + out, tl.min(tl.where(score == best, first, 2147483647), axis=0))


@jit
def _drawn_member(
    row_ptr, first, word, temperature, pivot, vocab,
    LANE: tl.constexpr, DEPTH: tl.constexpr, LARGEST: tl.constexpr, FILTER: tl.constexpr,
):  # fmt: skip
    """The member of the group of ``first`` that 32 random bits choose, by its share of the group."""
    member = first + tl.arange(0, DEPTH) * LANE
    x = _cut(tl.load(row_ptr + member, mask=member < vocab, other=float("-inf")), pivot, LARGEST, FILTER)
    rate = 1.4426950408889634 / tl.maximum(temperature, 1.0e-30)
    share = tl.cumsum(tl.exp2((x - tl.max(x, axis=0)) * rate), axis=0)
    drawn = (word >> 9).to(tl.float32) * 1.1920928955078125e-07 * tl.max(share, axis=0)
    return first + tl.sum((share <= drawn).to(tl.int32), axis=0) * LANE


@jit
def _smallest_of_span(
    row_ptr, token, best, pivot, vocab, SPAN: tl.constexpr, LARGEST: tl.constexpr, FILTER: tl.constexpr
):
    """The smallest id of logit ``best`` in the span of ``token``: spans ascend, no other one holds a smaller."""
    begin = token // SPAN * SPAN
    tokens = begin + tl.arange(0, SPAN)
    x = _cut(load_tokens(row_ptr, tokens, begin + SPAN, vocab), pivot, LARGEST, FILTER)
    return tl.min(tl.where(x == best, tokens, 2147483647), axis=0)


@jit
def _member_kernel(
    logits_ptr, temperature_ptr, seed_ptr, position_ptr, pivot_ptr, score_ptr, token_ptr, out_ptr,
    vocab, logits_stride, spans,
    SPANS_PAD: tl.constexpr, LANE: tl.constexpr, DEPTH: tl.constexpr, LARGEST: tl.constexpr,
    FILTER: tl.constexpr, DEPENDENT: tl.constexpr,
):  # fmt: skip
    """One row per program: the best group of all spans, then its member. Greedy: the smallest id of the best logit."""
    row, span = tl.program_id(0).to(tl.int64), tl.arange(0, SPANS_PAD)
    wait_for_inputs(DEPENDENT)
    row_ptr = logits_ptr + row * logits_stride
    pivot = tl.load(pivot_ptr + row) if FILTER else 0.0
    score = tl.load(score_ptr + row * spans + span, mask=span < spans, other=float("-inf"))
    best = tl.max(score, axis=0)
    group = tl.load(token_ptr + row * spans + span, mask=span < spans, other=2147483647)
    token = tl.min(tl.where(score == best, group, 2147483647), axis=0)
    temperature = tl.load(temperature_ptr + row)
    if temperature > 0:
        word = member_word(tl.load(seed_ptr + row), tl.load(position_ptr + row), token)
        token = _drawn_member(row_ptr, token, word, temperature, pivot, vocab, LANE, DEPTH, LARGEST, FILTER)
    else:
        token = _smallest_of_span(row_ptr, token, best, pivot, vocab, LANE * DEPTH, LARGEST, FILTER)
    tl.store(out_ptr + row, tl.minimum(token, vocab - 1))


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
        spans = triton.cdiv(vocab, DEPTH * LANE)
        score = torch.empty((rows, spans), dtype=torch.float32, device=logits.device)
        token = torch.empty((rows, spans), dtype=torch.int32, device=logits.device)
        inputs = logits, temperature, seeds, positions, pivot, score, token
        sizes = {"LANE": LANE, "DEPTH": DEPTH, "LARGEST": LARGEST, "FILTER": not plain} | dependent_launch(logits)
        _sample_kernel[(rows, spans)](*inputs, vocab, logits.stride(0), **sizes, num_warps=1)
        _member_kernel[(rows,)](
            *inputs, out, vocab, logits.stride(0), spans, SPANS_PAD=triton.next_power_of_2(spans), **sizes, num_warps=4
        )
    return out
