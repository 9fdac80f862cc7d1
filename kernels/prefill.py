"""Paged attention for rows with several queries: whole prompts and chunks of them, in one launch (FlashAttention's
online softmax over tiles; Dao et al., 2022).

A tile holds consecutive query tokens x the query heads of one KV head, so that K and V are read once for the group.
It walks over the keys its last query may see and no further: about half of a causal square is never touched. Only the
last few key tiles need the causal mask; the ones before run without it. The first query of a chunk stands behind its
row's ``context - n`` earlier tokens. Of an 8-bit cache, numbers are converted in registers; the scale of a key goes
into its column of the scores, that of a value into its column of the weights.

The grid depends on shapes alone: row r's tiles begin at ``query_starts[r] // TOKENS + r``, which leaves room for every
row's last, partial tile; a program finds its row from that formula and stops if it is not needed. The last tiles of a
row, which see the most keys, start first: what is left at the end is short.

This kernel runs on any GPU and in the interpreter. ``kernels.prefill_hopper`` is its fast twin for one architecture.
"""

import torch

from kernels.backend import jit, tl, triton

try:
    from kernels import prefill_hopper
except (ImportError, AttributeError, TypeError):  # Triton is missing, or its Gluon is another
    prefill_hopper = None


@jit
def _blocks(table_ptr, start, end, BLOCK_SIZE: tl.constexpr, BLOCK_N: tl.constexpr):
    """Block of each of the keys ``start .. start + BLOCK_N``, 0 from ``end`` on."""
    position = start + tl.arange(0, BLOCK_N)
    return tl.load(table_ptr + position // BLOCK_SIZE, mask=position < end, other=0).to(tl.int64)


@jit
def _tiles(
    q, best, total, acc, begin, end, last_seen, k_ptr, v_ptr, k_scale_ptr, v_scale_ptr, table_ptr, scale_log2,
    scale_stride_block, k_stride_block, k_stride_token, v_stride_block, v_stride_token,
    HEAD_DIM: tl.constexpr, DIM_PAD: tl.constexpr, BLOCK_SIZE: tl.constexpr, BLOCK_N: tl.constexpr,
    SCALED: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    """Fold the keys ``begin .. end`` into the running softmax; ``MASKED``: each query stops at its ``last_seen``.

    Without it ``end - begin`` is a whole number of tiles. Blocks are looked up one tile ahead: a load whose address is
    itself loaded in the same turn would keep only half as many tiles in flight.
    """
    dim = tl.arange(0, DIM_PAD)[None, :]
    block = _blocks(table_ptr, begin, end, BLOCK_SIZE, BLOCK_N)
    for start in range(begin, end, BLOCK_N):
        next_block = _blocks(table_ptr, start + BLOCK_N, end, BLOCK_SIZE, BLOCK_N)
        position = start + tl.arange(0, BLOCK_N)
        offset = position % BLOCK_SIZE
        inside = dim < HEAD_DIM
        if MASKED:
            inside = inside & (position < end)[:, None]
        k_at = block * k_stride_block + offset * k_stride_token
        k = tl.load(k_ptr + k_at[:, None] + dim, mask=inside, other=0.0)
        scores = tl.dot(q, k.to(q.dtype).T, input_precision="ieee")
        scale_at = block * scale_stride_block + offset
        if SCALED:
            scores *= tl.load(k_scale_ptr + scale_at, mask=position < end, other=0.0).to(tl.float32)[None, :]
        if MASKED:
            scores = tl.where(position[None, :] <= last_seen[:, None], scores, float("-inf"))
        new_best = tl.maximum(best, tl.max(scores, axis=1) * scale_log2)
        weight = tl.exp2(scores * scale_log2 - new_best[:, None])
        shrink = tl.exp2(best - new_best)
        total = total * shrink + tl.sum(weight, axis=1)
        if SCALED:
            weight *= tl.load(v_scale_ptr + scale_at, mask=position < end, other=0.0).to(tl.float32)[None, :]
        v_at = block * v_stride_block + offset * v_stride_token
        v = tl.load(v_ptr + v_at[:, None] + dim, mask=inside, other=0.0)
        acc = tl.dot(weight.to(q.dtype), v.to(q.dtype), acc * shrink[:, None], input_precision="ieee")
        best, block = new_best, next_block
    return best, total, acc


@jit
def _prefill_kernel(
    q_ptr, k_ptr, v_ptr, k_scale_ptr, v_scale_ptr, table_ptr, query_start_ptr, context_ptr, out_ptr,
    num_rows, num_tokens, scale_log2, q_stride_token, q_stride_head, out_stride_token, out_stride_head, table_stride,
    k_stride_block, k_stride_head, k_stride_token, v_stride_block, v_stride_head, v_stride_token,
    GROUP: tl.constexpr, HEAD_DIM: tl.constexpr, DIM_PAD: tl.constexpr, BLOCK_SIZE: tl.constexpr, SCALED: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, ROWS_PAD: tl.constexpr, UPCAST: tl.constexpr,
):  # fmt: skip
    """BLOCK_M // GROUP tokens of one row and one KV head per program. Tokens of no row form a last row of context 0."""
    TOKENS: tl.constexpr = BLOCK_M // GROUP
    tile, kv_head = tl.num_programs(0) - 1 - tl.program_id(0), tl.program_id(1)
    rows = tl.arange(0, ROWS_PAD)
    first_tiles = tl.load(query_start_ptr + rows, mask=rows <= num_rows, other=0).to(tl.int32) // TOKENS + rows
    row = tl.sum(((first_tiles <= tile) & (rows <= num_rows)).to(tl.int32), axis=0) - 1
    begin = tl.load(query_start_ptr + row).to(tl.int32)
    end = tl.load(query_start_ptr + row + 1, mask=row < num_rows, other=num_tokens).to(tl.int32)
    length = end - begin
    first = (tile - begin // TOKENS - row) * TOKENS  # this tile's first query within its row
    if (first >= length) | ((length == 1) & (row < num_rows)):
        return
    context = tl.load(context_ptr + row, mask=row < num_rows, other=0).to(tl.int32)

    lane, dim = tl.arange(0, BLOCK_M), tl.arange(0, DIM_PAD)
    query = first + lane // GROUP
    head = kv_head * GROUP + lane % GROUP
    in_q = ((lane < TOKENS * GROUP) & (query < length))[:, None] & (dim[None, :] < HEAD_DIM)
    token = (begin + query).to(tl.int64)
    q = tl.load(
        q_ptr + token[:, None] * q_stride_token + head[:, None] * q_stride_head + dim[None, :], mask=in_q, other=0.0
    )
    if UPCAST:
        q = q.to(tl.float32)
    best = tl.full((BLOCK_M,), -1.0e30, tl.float32)  # finite: a lane without keys gives exp2(-inf), never inf - inf
    total = tl.zeros((BLOCK_M,), tl.float32)
    acc = tl.zeros((BLOCK_M, DIM_PAD), tl.float32)

    last_seen = context - length + query
    seen_by_all = tl.maximum(context - length + first + 1, 0) // BLOCK_N * BLOCK_N
    seen_by_any = tl.maximum(tl.minimum(context, context - length + first + TOKENS), 0)
    if context > 0:
        k_ptr += kv_head * k_stride_head
        v_ptr += kv_head * v_stride_head
        table_ptr += row.to(tl.int64) * table_stride
        scale_stride_block = tl.num_programs(1) * BLOCK_SIZE
        k_scale_ptr += kv_head * BLOCK_SIZE
        v_scale_ptr += kv_head * BLOCK_SIZE
        best, total, acc = _tiles(
            q, best, total, acc, 0, seen_by_all, last_seen, k_ptr, v_ptr, k_scale_ptr, v_scale_ptr, table_ptr,
            scale_log2, scale_stride_block, k_stride_block, k_stride_token, v_stride_block, v_stride_token,
            HEAD_DIM, DIM_PAD, BLOCK_SIZE, BLOCK_N, SCALED, False,
        )  # fmt: skip
        best, total, acc = _tiles(
            q, best, total, acc, seen_by_all, seen_by_any, last_seen, k_ptr, v_ptr, k_scale_ptr, v_scale_ptr, table_ptr,
            scale_log2, scale_stride_block, k_stride_block, k_stride_token, v_stride_block, v_stride_token,
            HEAD_DIM, DIM_PAD, BLOCK_SIZE, BLOCK_N, SCALED, True,
        )  # fmt: skip
    acc = acc / tl.where(total > 0, total, 1.0)[:, None]
    out = out_ptr + token[:, None] * out_stride_token + head[:, None] * out_stride_head + dim[None, :]
    tl.store(out, acc.to(out_ptr.dtype.element_ty), mask=in_q)


def tile(head_dim: int, dtype: torch.dtype) -> tuple[int, int, int, int]:
    """(BLOCK_M, BLOCK_N, warps, stages): chosen so that no register spills and q, K and V fit shared memory."""
    if dtype == torch.float32:
        return 32, 32, 8, 2
    return (128, 64, 8, 3) if head_dim <= 128 else (128, 32, 8, 2)


def launch_prefill(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    block_tables: torch.Tensor,
    query_starts: torch.Tensor,
    context_lens: torch.Tensor,
    scale_log2: float,
    out: torch.Tensor,
    upcast: bool,
    k_scale: torch.Tensor | None = None,
    v_scale: torch.Tensor | None = None,
) -> None:
    """Fill ``out`` for the rows with several queries, and clear the tokens that belong to no row.

    Args:
        scale_log2: factor of the scores, log2(e) included; positive (the maximum is taken before it is applied).
        k_scale, v_scale: fp16 (blocks, Hkv, block_size), contiguous, where the caches are int8 or fp8; else None.
    """
    inputs = q, k_cache, v_cache, block_tables, query_starts, context_lens, scale_log2, out
    if prefill_hopper and prefill_hopper.serves(q, k_cache, v_cache):
        prefill_hopper.launch(*inputs)
        return
    num_rows, (num_tokens, num_q_heads, head_dim) = context_lens.numel(), q.shape
    num_kv_heads, block_size = k_cache.shape[1:3]
    group = num_q_heads // num_kv_heads
    block_m, block_n, warps, stages = tile(head_dim, torch.float32 if upcast else q.dtype)
    grid = (num_tokens // (block_m // group) + num_rows + 1, num_kv_heads)
    scaled = k_scale is not None
    _prefill_kernel[grid](
        q, k_cache, v_cache, k_scale if scaled else q, v_scale if scaled else q,  # q: a pointer that nothing reads
        block_tables, query_starts, context_lens, out,
        num_rows, num_tokens, scale_log2, *q.stride()[:2], *out.stride()[:2], block_tables.stride(0),
        *k_cache.stride()[:3], *v_cache.stride()[:3],
        GROUP=group, HEAD_DIM=head_dim, DIM_PAD=triton.next_power_of_2(head_dim), BLOCK_SIZE=block_size, SCALED=scaled,
        BLOCK_M=block_m, BLOCK_N=block_n, ROWS_PAD=triton.next_power_of_2(num_rows + 1), UPCAST=upcast,
        num_warps=warps, num_stages=stages,
    )  # fmt: skip
