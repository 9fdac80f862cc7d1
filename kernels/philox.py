"""The random numbers of sampling: Philox-4x32-10, a counter-based generator (Salmon et al., SC'11).

A token's noise is a pure function of (seed, position, token id): no state, no order, no row. So a request's tokens do
not depend on its neighbours, its seat, padding or how the vocabulary is cut among programs. One call gives four 32-bit
words; they belong to the tokens ``i``, ``i + LANE``, ``i + 2 LANE``, ``i + 3 LANE`` of a span of 4 LANE tokens, so that
a program loads each quarter of its span contiguously. Here as PyTorch; ``tl.philox`` computes the same words.
"""

import torch

from kernels.backend import jit, tl

LANE = 1024  # tokens a word apart; four make a span
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


def token_bits(seeds: torch.Tensor, positions: torch.Tensor, vocab_size: int) -> torch.Tensor:
    """The 32 random bits of each token: (R, vocab_size) int64 for ``seeds`` (R,) int64 and ``positions`` (R,)."""
    spans = -(-vocab_size // (4 * LANE))
    call = torch.arange(spans * LANE, device=seeds.device)
    position = positions.long().unsqueeze(1) & _MASK
    words = philox(seeds.unsqueeze(1), (call.unsqueeze(0), position, torch.zeros_like(position), 0))
    return torch.stack([w.view(-1, spans, LANE) for w in words], dim=2).flatten(1)[:, :vocab_size]


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
