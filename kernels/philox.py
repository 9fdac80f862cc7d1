"""The random numbers of sampling: Philox-4x32-10, a counter-based generator (Salmon et al., SC'11).

The noise is a pure function of (seed, position, token): no state, no order, no row. So a request's tokens do not depend
on its neighbours, its seat, padding or how the vocabulary is cut among programs. One call gives four 32-bit words for
four neighbouring groups of tokens (see ``kernels.sampling``). Here as PyTorch; ``tl.philox`` computes the same words.
"""

import torch

from kernels.backend import jit, tl

_MASK = 0xFFFFFFFF
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)
_ROUNDS = 10


def philox(key: torch.Tensor, counter: tuple[torch.Tensor | int, ...]) -> tuple[torch.Tensor, ...]:
    """Four words of 32 bits (as int64) of a 64-bit ``key`` and four 32-bit counter words that broadcast together."""
    c0, c1, c2, c3 = counter
    k0, k1 = key & _MASK, (key >> 32) & _MASK
    for _ in range(_ROUNDS):
        a, b = c0 * _MULTIPLIERS[0], c2 * _MULTIPLIERS[1]  # wraps mod 2^64: the high word is right all the same
        c0, c2 = ((b >> 32) & _MASK) ^ c1 ^ k0, ((a >> 32) & _MASK) ^ c3 ^ k1
        c1, c3 = b & _MASK, a & _MASK
        k0, k1 = (k0 + _WEYL[0]) & _MASK, (k1 + _WEYL[1]) & _MASK
    return c0, c1, c2, c3


def group_bits(seeds: torch.Tensor, positions: torch.Tensor, groups: int) -> torch.Tensor:
    """The 32 random bits of each group of tokens: (R, groups) int64; ``groups`` is a multiple of 4."""
    call = torch.arange(groups // 4, device=seeds.device)
    position = positions.long().unsqueeze(1) & _MASK
    words = philox(seeds.unsqueeze(1), (call.unsqueeze(0), position, torch.zeros_like(position), 0))
    return torch.stack(words, dim=2).flatten(1)


def member_bits(seeds: torch.Tensor, positions: torch.Tensor, first: torch.Tensor) -> torch.Tensor:
    """The 32 random bits that choose within the group whose first token is ``first``: (R,) int64."""
    position = positions.long() & _MASK
    return philox(seeds, (first, position, torch.ones_like(position), 0))[0]


@jit
def group_words(seed, position, first_call, LANE: tl.constexpr) -> "tl.tensor":
    """``group_bits`` of LANE groups inside a kernel: uint32 words of LANE / 4 calls from ``first_call`` on."""
    call = (first_call + tl.arange(0, LANE // 4)).to(tl.uint32)
    zero = call * 0
    w0, w1, w2, w3 = tl.philox(seed, call, zero + position.to(tl.uint32), zero, zero)
    return tl.join(tl.join(w0, w2), tl.join(w1, w3)).reshape(LANE)


@jit
def member_word(seed, position, first) -> "tl.tensor":
    """``member_bits`` of one row inside a kernel."""
    zero = first.to(tl.uint32) * 0
    word, _, _, _ = tl.philox(seed, first.to(tl.uint32), zero + position.to(tl.uint32), zero + 1, zero)
    return word


def gumbel(bits: torch.Tensor) -> torch.Tensor:
    """Gumbel noise ``-log(-log(1 - u))`` in fp32 of 32 random bits; finite, with the full 2^-32 tail.

    ``u`` is tiny where the noise is large, which is where a float is fine: that is why 1 - u stands inside, and why a
    series replaces the logarithm there.
    """
    u = bits.float().add_(0.5).mul_(2.0**-32).clamp_(max=1 - 2.0**-24)
    series = u * (1 + u * (0.5 + u * (1 / 3)))
    return -torch.log(torch.where(u < 2.0**-7, series, -torch.log(1 - u)))


@jit
def gumbel_of_bits(bits) -> "tl.tensor":
    """``gumbel`` inside a kernel: the same operations on uint32 words, so that both differ by rounding only."""
    u = tl.minimum((bits.to(tl.float32) + 0.5) * 2.3283064365386963e-10, 0.99999994)
    series = u * (1.0 + u * (0.5 + u * 0.3333333333333333))
    return -tl.log(tl.where(u < 0.0078125, series, -tl.log(1.0 - u)))
