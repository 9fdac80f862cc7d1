"""Shares of a context: how many there are, and how their partial softmaxes become one answer.

Each program of ``kernels.decode`` that attends to a share leaves its output and one log-sum-exp (maximum and sum of its
weights folded into one number), and counts itself in. Whoever completes the count merges all of them.
"""

from functools import lru_cache

import torch

from kernels.backend import jit, tl, triton

TARGET_PROGRAMS = 512  # about four for each of a large GPU's multiprocessors
MIN_SPLIT = 64  # tokens: one tile
MAX_SPLITS = 64
MAX_COUNTERS = 1 << 16  # of arrivals: one for each row and KV head that is cut


@jit
def merge_shares(
    first, shares, partial_ptr, lse_ptr,
    GROUP: tl.constexpr, GROUP_POW: tl.constexpr, HEAD_DIM: tl.constexpr, DIM_PAD: tl.constexpr, CHUNK: tl.constexpr,
) -> "tl.tensor":  # fmt: skip
    """Merge the partial softmaxes ``first .. first + shares`` of a group: (GROUP_POW, DIM_PAD).

    Read past the first-level cache (".cg"): other programs wrote them.
    """
    share, member, dim = tl.arange(0, CHUNK), tl.arange(0, GROUP_POW), tl.arange(0, DIM_PAD)
    best = tl.full((GROUP_POW,), -1.0e30, tl.float32)
    total = tl.zeros((GROUP_POW,), tl.float32)
    acc = tl.zeros((GROUP_POW, DIM_PAD), tl.float32)
    for start in range(0, shares, CHUNK):
        used = (start + share < shares)[:, None] & (member < GROUP)[None, :]
        slot = (first + start + share)[:, None] * GROUP + member[None, :]
        lse = tl.load(lse_ptr + slot, mask=used, other=float("-inf"), cache_modifier=".cg")
        in_part = used[:, :, None] & (dim < HEAD_DIM)[None, None, :]
        part_at = slot[:, :, None] * HEAD_DIM + dim[None, None, :]
        part = tl.load(partial_ptr + part_at, mask=in_part, other=0.0, cache_modifier=".cg")
        new_best = tl.maximum(best, tl.max(lse, axis=0))
        weight, shrink = tl.exp2(lse - new_best[None, :]), tl.exp2(best - new_best)
        acc = acc * shrink[:, None] + tl.sum(part * weight[:, :, None], axis=0)
        total = total * shrink + tl.sum(weight, axis=0)
        best = new_best
    return acc / tl.where(total > 0, total, 1.0)[:, None]


@lru_cache
def arrival_counters(device: torch.device) -> torch.Tensor:
    """``MAX_COUNTERS`` counters, 0 between launches; the attention launches of a device must follow one another.

    Raises:
        RuntimeError: when first needed inside a graph capture, where zeroing them would only be recorded.
    """
    if device.type == "cuda" and torch.cuda.is_current_stream_capturing():
        raise RuntimeError("attention: run it once before capturing it in a graph (its counters must exist)")
    return torch.zeros(MAX_COUNTERS, dtype=torch.int32, device=device)


def num_splits(num_rows: int, num_kv_heads: int, longest: int) -> int:
    """Shares per context: enough programs to fill the device, none under ``MIN_SPLIT`` tokens. Shapes only."""
    wanted = TARGET_PROGRAMS // (num_rows * num_kv_heads)
    return max(1, min(wanted, triton.cdiv(longest, MIN_SPLIT), MAX_SPLITS))
