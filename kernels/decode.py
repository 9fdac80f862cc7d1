"""Paged attention for rows with one query: split over the KV range, then reduced (split-KV decoding, "flash decoding").

A decode row reads its whole context once and computes almost nothing with it, so the time is bytes of K and V over
bandwidth. Two things make a GPU reach it: all query heads of a KV head share one tile, so that each byte of K and V is
read once for the whole group; and a context is cut among several programs, so that even one long row fills the device.
Each program leaves a partial softmax (its maximum and sum folded into one log-sum-exp); a second kernel merges them.

The grid depends on shapes alone, never on lengths: a CUDA graph may replay it for any lengths. Programs start in the
order of the rows, all heads of a row together: with the longest contexts first, what is left at the end is short.
"""

import torch

from kernels.backend import dependent_launch, jit, tl, triton, wait_for_inputs

TARGET_PROGRAMS = 768  # about six for each of a large GPU's multiprocessors
MIN_SPLIT = 128  # tokens: a shorter share costs more in the merge than it gains
MAX_SPLITS = 64


@jit
def _decode_kernel(
    q_ptr, k_ptr, v_ptr, table_ptr, query_start_ptr, context_ptr, out_ptr, partial_ptr, lse_ptr,
    num_rows, num_tokens, scale_log2, q_stride_token, q_stride_head, out_stride_token, out_stride_head, table_stride,
    k_stride_block, k_stride_head, k_stride_token, v_stride_block, v_stride_head, v_stride_token,
    GROUP: tl.constexpr, GROUP_PAD: tl.constexpr, HEAD_DIM: tl.constexpr, DIM_PAD: tl.constexpr,
    BLOCK_SIZE: tl.constexpr, BLOCK_N: tl.constexpr, SPLITS: tl.constexpr, UPCAST: tl.constexpr,
    DEPENDENT: tl.constexpr,
):  # fmt: skip
    """One row, one KV head and one share of the context per program. Rows with more than one query are left alone."""
    wait_for_inputs(DEPENDENT)
    kv_head, row, split = tl.program_id(0), tl.program_id(1).to(tl.int64), tl.program_id(2)
    member, dim = tl.arange(0, GROUP_PAD), tl.arange(0, DIM_PAD)
    head = kv_head * GROUP + member
    in_q = (member[:, None] < GROUP) & (dim[None, :] < HEAD_DIM)
    in_dim = dim < HEAD_DIM

    tail = tl.load(query_start_ptr + num_rows) + row  # tokens of no row: program i clears the i-th
    if (tail < num_tokens) & (split == 0):
        cleared = out_ptr + tail * out_stride_token + head[:, None] * out_stride_head + dim[None, :]
        tl.store(cleared, tl.zeros((GROUP_PAD, DIM_PAD), out_ptr.dtype.element_ty), mask=in_q)
    if row >= num_rows:
        return
    token = tl.load(query_start_ptr + row).to(tl.int64)
    if tl.load(query_start_ptr + row + 1) - token != 1:
        return

    context = tl.load(context_ptr + row).to(tl.int32)
    share = tl.cdiv(tl.cdiv(context, BLOCK_N), SPLITS) * BLOCK_N
    begin = split * share
    end = tl.minimum(begin + share, context)
    q = tl.load(q_ptr + token * q_stride_token + head[:, None] * q_stride_head + dim[None, :], mask=in_q, other=0.0)
    if UPCAST:
        q = q.to(tl.float32)
    best = tl.full((GROUP_PAD,), -1.0e30, tl.float32)  # finite: an empty share gives exp2(-inf), never inf - inf
    total = tl.zeros((GROUP_PAD,), tl.float32)
    acc = tl.zeros((GROUP_PAD, DIM_PAD), tl.float32)
    for start in range(begin, end, BLOCK_N):
        position = start + tl.arange(0, BLOCK_N)
        valid = position < end
        block = tl.load(table_ptr + row * table_stride + position // BLOCK_SIZE, mask=valid, other=0).to(tl.int64)
        offset = position % BLOCK_SIZE
        k_at = block * k_stride_block + kv_head * k_stride_head + offset * k_stride_token
        k = tl.load(k_ptr + k_at[None, :] + dim[:, None], mask=valid[None, :] & in_dim[:, None], other=0.0)
        scores = tl.dot(q, k.to(q.dtype), input_precision="ieee") * scale_log2
        scores = tl.where(valid[None, :], scores, float("-inf"))
        new_best = tl.maximum(best, tl.max(scores, axis=1))
        weight = tl.exp2(scores - new_best[:, None])
        shrink = tl.exp2(best - new_best)
        v_at = block * v_stride_block + kv_head * v_stride_head + offset * v_stride_token
        v = tl.load(v_ptr + v_at[:, None] + dim[None, :], mask=valid[:, None] & in_dim[None, :], other=0.0)
        acc = tl.dot(weight.to(q.dtype), v.to(q.dtype), acc * shrink[:, None], input_precision="ieee")
        total = total * shrink + tl.sum(weight, axis=1)
        best = new_best

    acc = acc / tl.where(total > 0, total, 1.0)[:, None]
    if SPLITS == 1:
        out = out_ptr + token * out_stride_token + head[:, None] * out_stride_head + dim[None, :]
        tl.store(out, acc.to(out_ptr.dtype.element_ty), mask=in_q)
    else:
        lse = tl.where(total > 0, best + tl.log2(tl.where(total > 0, total, 1.0)), float("-inf"))
        slot = (row * tl.num_programs(0) * GROUP + head) * SPLITS + split  # (R, Hq, SPLITS)
        tl.store(lse_ptr + slot, lse, mask=member < GROUP)
        tl.store(partial_ptr + slot[:, None] * HEAD_DIM + dim[None, :], acc, mask=in_q & (total > 0)[:, None])


@jit
def _decode_reduce_kernel(
    partial_ptr, lse_ptr, query_start_ptr, out_ptr, out_stride_token, out_stride_head,
    HEAD_DIM: tl.constexpr, DIM_PAD: tl.constexpr, SPLITS: tl.constexpr, SPLITS_PAD: tl.constexpr,
    DEPENDENT: tl.constexpr,
):  # fmt: skip
    """Merge the shares of one row and query head; shares without a key weigh nothing and are not read."""
    wait_for_inputs(DEPENDENT)
    row, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    token = tl.load(query_start_ptr + row).to(tl.int64)
    if tl.load(query_start_ptr + row + 1) - token != 1:
        return
    split, dim = tl.arange(0, SPLITS_PAD), tl.arange(0, DIM_PAD)
    slot = (row * tl.num_programs(1) + head) * SPLITS + split
    lse = tl.load(lse_ptr + slot, mask=split < SPLITS, other=float("-inf"))
    weight = tl.exp2(lse - tl.maximum(tl.max(lse, axis=0), -1.0e30))
    used = (weight > 0)[:, None] & (dim[None, :] < HEAD_DIM)
    partial = tl.load(partial_ptr + slot[:, None] * HEAD_DIM + dim[None, :], mask=used, other=0.0)
    total = tl.sum(weight, axis=0)
    merged = tl.sum(partial * weight[:, None], axis=0) / tl.where(total > 0, total, 1.0)
    out = out_ptr + token * out_stride_token + head * out_stride_head + dim
    tl.store(out, merged.to(out_ptr.dtype.element_ty), mask=dim < HEAD_DIM)


def num_splits(num_rows: int, num_kv_heads: int, longest: int) -> int:
    """Shares per context: enough programs to fill the device, none under ``MIN_SPLIT`` tokens. Shapes only."""
    wanted = TARGET_PROGRAMS // (num_rows * num_kv_heads)
    return max(1, min(wanted, triton.cdiv(longest, MIN_SPLIT), MAX_SPLITS))


def tile(head_dim: int, dtype: torch.dtype) -> tuple[int, int, int]:
    """(BLOCK_N, warps, stages): chosen so that no register spills and the pipeline copies of K and V fit."""
    if head_dim <= 128:
        return 64, 4, 3
    return (32, 8, 2) if dtype == torch.float32 else (32, 4, 3)


def launch_decode(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    block_tables: torch.Tensor,
    query_starts: torch.Tensor,
    context_lens: torch.Tensor,
    scale_log2: float,
    out: torch.Tensor,
    splits: int | None,
    num_programs: int,
    upcast: bool,
) -> None:
    """Fill ``out`` for the rows with one query, and clear up to ``num_programs`` tokens that belong to no row."""
    num_rows, (num_tokens, num_q_heads, head_dim) = context_lens.numel(), q.shape
    num_kv_heads, block_size = k_cache.shape[1:3]
    group, dim_pad = num_q_heads // num_kv_heads, triton.next_power_of_2(head_dim)
    block_n, warps, stages = tile(head_dim, q.dtype)
    splits = splits or num_splits(num_rows, num_kv_heads, block_tables.shape[1] * block_size)
    partial, lse = out, out  # not touched by a single share
    if splits > 1:
        partial = torch.empty((num_rows, num_q_heads, splits, head_dim), dtype=torch.float32, device=q.device)
        lse = torch.empty((num_rows, num_q_heads, splits), dtype=torch.float32, device=q.device)
    _decode_kernel[(num_kv_heads, num_programs, splits)](
        q, k_cache, v_cache, block_tables, query_starts, context_lens, out, partial, lse,
        num_rows, num_tokens, scale_log2, *q.stride()[:2], *out.stride()[:2], block_tables.stride(0),
        *k_cache.stride()[:3], *v_cache.stride()[:3],
        GROUP=group, GROUP_PAD=max(16, triton.next_power_of_2(group)), HEAD_DIM=head_dim, DIM_PAD=dim_pad,
        BLOCK_SIZE=block_size, BLOCK_N=block_n, SPLITS=splits, UPCAST=upcast, num_warps=warps, num_stages=stages,
        **dependent_launch(q),
    )  # fmt: skip
    if splits > 1:
        _decode_reduce_kernel[(num_rows, num_q_heads)](
            partial, lse, query_starts, out, *out.stride()[:2],
            HEAD_DIM=head_dim, DIM_PAD=dim_pad, SPLITS=splits, SPLITS_PAD=triton.next_power_of_2(splits), num_warps=2,
            **dependent_launch(q),
        )  # fmt: skip
