"""Paged attention for rows with one query: split over the KV range ("flash decoding"), merged by who arrives last.

A decode row reads its whole context once and computes almost nothing with it, so the time is bytes of K and V over
bandwidth. Two things make a GPU reach it: all query heads of a KV head share one tile, so that each byte of K and V is
read once for the whole group; and a context is cut among several programs, so that even one long row fills the device.

A program that is alone with its context writes the answer. Otherwise each leaves a partial softmax (its maximum and sum
folded into one log-sum-exp) and counts itself in; the one that completes the count merges them in the order of the
shares, so that the result does not depend on who that was, and sets the count back to 0 for the next launch.

An 8-bit cache is read two neighbours at a time, as int16, and taken apart in registers (``kernels.kv_format``). Even
and odd dimensions then go through the products as two halves of a head, which needs the queries in the same halves.

The grid depends on shapes alone, never on lengths: a CUDA graph may replay it for any lengths. Programs start in the
order of the rows, all heads of a row together: with the longest contexts first, what is left at the end is short.
"""

import torch

from kernels.backend import dependent_launch, jit, tl, triton, wait_for_inputs
from kernels.kv_format import as_words, format_of, unpack_pairs, unpack_ptx
from kernels.shares import arrival_counters, merge_shares, num_splits


@jit
def _load_query(at, dim, inside, PAIRS: tl.constexpr, DOT: tl.constexpr):
    """Queries of a group as two halves (the same twice for a plain cache), and the factor of their scores.

    Beside 8-bit keys a query is divided by its largest magnitude: any then fits into fp16.
    """
    if PAIRS:
        even = tl.load(at + 2 * dim, mask=inside, other=0.0).to(tl.float32)
        odd = tl.load(at + 2 * dim + 1, mask=inside, other=0.0).to(tl.float32)
        unit = tl.max(tl.maximum(tl.abs(even), tl.abs(odd)), axis=1)
        unit = tl.where(unit > 0, unit, 1.0)
        return (even / unit[:, None]).to(DOT), (odd / unit[:, None]).to(DOT), unit
    q = tl.load(at + dim, mask=inside, other=0.0).to(DOT)
    return q, q, tl.full((q.shape[0],), 1.0, tl.float32)


@jit
def _store_halves(at, dim, even, odd, inside, PAIRS: tl.constexpr):
    """Undo the halves of ``_load_query``."""
    if PAIRS:
        tl.store(at + 2 * dim, even.to(at.dtype.element_ty), mask=inside)
        tl.store(at + 2 * dim + 1, odd.to(at.dtype.element_ty), mask=inside)
    else:
        tl.store(at + dim, even.to(at.dtype.element_ty), mask=inside)


@jit
def _load_scales(word_ptr, at):
    """The fp16 numbers ``at``, each cut from the 32 bits around it: what is copied ahead of its use has 4 bytes."""
    word = tl.load(word_ptr + (at >> 1))
    return (word >> (16 * (at & 1)).to(tl.int32)).to(tl.int16).to(tl.float16, bitcast=True).to(tl.float32)


@jit
def _load_tile(ptr, at, in_dim, WHOLE: tl.constexpr):
    """A tile of keys or values; ``WHOLE``: its width is that of a head, so nothing needs a mask."""
    if WHOLE:
        return tl.load(ptr + at)
    return tl.load(ptr + at, mask=in_dim, other=0)


@jit
def _attend_share(
    q, q_odd, factor, begin, end, table_ptr, k_ptr, v_ptr, k_scale_ptr, v_scale_ptr, scales_at, scale_stride_block,
    stride_block, stride_token, FORMAT: tl.constexpr, WIDTH: tl.constexpr, REAL: tl.constexpr,
    BLOCK_SIZE: tl.constexpr, BLOCK_N: tl.constexpr, AHEAD: tl.constexpr, PTX: tl.constexpr,
):  # fmt: skip
    """Attention of ``q`` to the tokens [begin, end) of one head: log-sum-exp (base 2) and output, in two halves.

    Lanes past the end read the last token again and weigh nothing. ``AHEAD``: block ids are read one tile early.
    """
    PAIRS: tl.constexpr = FORMAT != "plain"
    lane, dim, last = tl.arange(0, BLOCK_N), tl.arange(0, WIDTH)[None, :], tl.maximum(end - 1, 0)
    best = tl.full((q.shape[0],), -1.0e30, tl.float32)  # finite: an empty share gives exp2(-inf), never inf - inf
    total = tl.zeros((q.shape[0], BLOCK_N), tl.float32)  # by lane: added up once, behind the loop
    acc = tl.zeros((q.shape[0], WIDTH), tl.float32)
    acc_odd = tl.zeros((q.shape[0], WIDTH), tl.float32)
    ids = tl.zeros((BLOCK_N,), tl.int32)
    if AHEAD:
        ids = tl.load(table_ptr + tl.minimum(begin + lane, last) // BLOCK_SIZE, mask=begin < end, other=0).to(tl.int32)
    for start in range(begin, end, BLOCK_N):
        position = tl.minimum(start + lane, last)
        if AHEAD:
            block = ids.to(tl.int64)
            ids = tl.load(table_ptr + tl.minimum(start + BLOCK_N + lane, last) // BLOCK_SIZE).to(tl.int32)
        else:
            block = tl.load(table_ptr + position // BLOCK_SIZE).to(tl.int64)
        offset = position % BLOCK_SIZE
        at = (block * stride_block + offset * stride_token)[:, None] + dim
        k = tl.trans(_load_tile(k_ptr, at, dim < REAL, WIDTH == REAL))
        if PAIRS:
            scale_at = scales_at + block * scale_stride_block + offset
            k_scale, v_scale = _load_scales(k_scale_ptr, scale_at), _load_scales(v_scale_ptr, scale_at)
            k, k_odd = unpack_pairs(k, FORMAT, PTX)
            scores = tl.dot(q, k.to(q.dtype), input_precision="ieee")
            scores = tl.dot(q_odd, k_odd.to(q.dtype), scores, input_precision="ieee")
            scores *= factor[:, None] * k_scale[None, :]
        else:
            scores = tl.dot(q, k.to(q.dtype), input_precision="ieee") * factor[:, None]
        scores = tl.where((start + lane < end)[None, :], scores, float("-inf"))
        new_best = tl.maximum(best, tl.max(scores, axis=1))
        weight, shrink = tl.exp2(scores - new_best[:, None]), tl.exp2(best - new_best)
        total = total * shrink[:, None] + weight
        best = new_best
        v = _load_tile(v_ptr, at, dim < REAL, WIDTH == REAL)
        if PAIRS:
            weight *= 64.0 * v_scale[None, :]  # most scales are small: keeps the product in fp16's full precision
            v, v_odd = unpack_pairs(v, FORMAT, PTX)
            acc_odd = tl.dot(weight.to(q.dtype), v_odd.to(q.dtype), acc_odd * shrink[:, None], input_precision="ieee")
        acc = tl.dot(weight.to(q.dtype), v.to(q.dtype), acc * shrink[:, None], input_precision="ieee")
    total = tl.sum(total, axis=1)
    divisor = tl.where(total > 0, total, 1.0)
    inverse = ((1.0 / 64.0 if PAIRS else 1.0) / divisor)[:, None]
    return tl.where(total > 0, best + tl.log2(divisor), float("-inf")), acc * inverse, acc_odd * inverse


@jit
def _decode_kernel(
    q_ptr, k_ptr, v_ptr, k_scale_ptr, v_scale_ptr, table_ptr, query_start_ptr, context_ptr, out_ptr, partial_ptr,
    lse_ptr, arrived_ptr, num_rows, num_tokens, scale_log2,
    q_stride_token, q_stride_head, out_stride_token, out_stride_head, table_stride,
    kv_stride_block, kv_stride_head, kv_stride_token,
    GROUP: tl.constexpr, GROUP_PAD: tl.constexpr, GROUP_POW: tl.constexpr, HEAD_DIM: tl.constexpr,
    DIM_PAD: tl.constexpr, BLOCK_SIZE: tl.constexpr, BLOCK_N: tl.constexpr, CHUNK: tl.constexpr, SPLIT: tl.constexpr,
    FORMAT: tl.constexpr, DOT: tl.constexpr, AHEAD: tl.constexpr, PTX: tl.constexpr, DEPENDENT: tl.constexpr,
):  # fmt: skip
    """One KV head, one row and one share of its context per program. Rows with more than one query are left alone."""
    wait_for_inputs(DEPENDENT)
    PAIRS: tl.constexpr = FORMAT != "plain"
    WIDTH: tl.constexpr = DIM_PAD // 2 if PAIRS else DIM_PAD  # of a half
    REAL: tl.constexpr = HEAD_DIM // 2 if PAIRS else HEAD_DIM
    kv_head, row, split = tl.program_id(0), tl.program_id(1).to(tl.int64), tl.program_id(2)
    member, dim = tl.arange(0, GROUP_PAD), tl.arange(0, WIDTH)[None, :]
    head = (kv_head * GROUP + member)[:, None]
    in_q = (member < GROUP)[:, None] & (dim < REAL)

    tail = tl.load(query_start_ptr + num_rows) + row  # tokens of no row: program i clears the i-th
    if (tail < num_tokens) & (split == 0):
        nothing = tl.zeros((GROUP_PAD, WIDTH), tl.float32)
        _store_halves(out_ptr + tail * out_stride_token + head * out_stride_head, dim, nothing, nothing, in_q, PAIRS)
    if row >= num_rows:
        return
    token = tl.load(query_start_ptr + row).to(tl.int64)
    context = tl.load(context_ptr + row).to(tl.int32)
    share = tl.maximum(tl.cdiv(tl.cdiv(context, BLOCK_N), tl.num_programs(2)) * BLOCK_N, 1)
    begin = split * share
    if (tl.load(query_start_ptr + row + 1) - token != 1) | ((begin >= context) & (split > 0)):
        return

    q_at = q_ptr + token * q_stride_token + head * q_stride_head
    q, q_odd, unit = _load_query(q_at, dim, in_q, PAIRS, DOT)
    lse, acc, acc_odd = _attend_share(
        q, q_odd, unit * scale_log2, begin, tl.minimum(begin + share, context), table_ptr + row * table_stride,
        k_ptr + kv_head * kv_stride_head, v_ptr + kv_head * kv_stride_head, k_scale_ptr, v_scale_ptr,
        kv_head * BLOCK_SIZE, tl.num_programs(0) * BLOCK_SIZE, kv_stride_block, kv_stride_token,
        FORMAT, WIDTH, REAL, BLOCK_SIZE, BLOCK_N, AHEAD, PTX,
    )  # fmt: skip
    out_at = out_ptr + token * out_stride_token
    shares = tl.cdiv(context, share)
    if shares <= 1:
        _store_halves(out_at + head * out_stride_head, dim, acc, acc_odd, in_q, PAIRS)
    elif SPLIT:
        item = row * tl.num_programs(0) + kv_head
        first = item * tl.num_programs(2)
        slot = (first + split) * GROUP + member  # (R, Hkv, splits, GROUP)
        tl.store(lse_ptr + slot, lse, mask=member < GROUP)
        _store_halves(partial_ptr + slot[:, None] * HEAD_DIM, dim, acc, acc_odd, in_q, PAIRS)
        tl.debug_barrier()  # all threads have stored before one of them, releasing, counts the share in
        if tl.atomic_add(arrived_ptr + item, 1, sem="acq_rel") == shares - 1:
            merged = merge_shares(first, shares, partial_ptr, lse_ptr, GROUP, GROUP_POW, HEAD_DIM, DIM_PAD, CHUNK)
            few, whole = tl.arange(0, GROUP_POW)[:, None], tl.arange(0, DIM_PAD)[None, :]
            merged_at = out_at + (kv_head * GROUP + few) * out_stride_head + whole
            tl.store(merged_at, merged.to(out_ptr.dtype.element_ty), mask=(few < GROUP) & (whole < HEAD_DIM))
            tl.store(arrived_ptr + item, 0)


def tile(head_dim: int, dtype: torch.dtype, kv_format: str, split: bool) -> tuple[int, int, int, bool]:
    """(BLOCK_N, warps, stages, block ids ahead) for queries of ``dtype``: measured on an H200, no register spills.

    Where one program has a whole context, at most four of them fit a multiprocessor (by shared memory, or in 8 bits by
    registers). With room for a fifth, the programs of a kernel that starts before the one in front has ended crowd onto
    the multiprocessors that are free first: 12 % slower, for 64 rows right behind one another.
    """
    if dtype == torch.float32:
        return (64, 4, 3, False) if head_dim <= 128 else (32, 8, 2, False)
    if head_dim > 128:
        return 32, 4, 3, False
    if kv_format != "plain":
        return 64, 2, 3, True
    return (64, 2, 3, False) if split else (32, 4, 4, True)


def dot_type(dtype: torch.dtype, kv_format: str, upcast: bool) -> object:
    """What is multiplied: fp32 as such, 8-bit numbers in fp16, the rest in the dtype of q (``upcast``: in fp32)."""
    if upcast or dtype == torch.float32:
        return tl.float32
    return tl.bfloat16 if dtype == torch.bfloat16 and kv_format == "plain" else tl.float16


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
    k_scale: torch.Tensor | None = None,
    v_scale: torch.Tensor | None = None,
) -> None:
    """Fill ``out`` for the rows with one query, and clear up to ``num_programs`` tokens that belong to no row."""
    num_rows, (num_tokens, num_q_heads, head_dim) = context_lens.numel(), q.shape
    num_kv_heads, block_size = k_cache.shape[1:3]
    group, dim_pad = num_q_heads // num_kv_heads, triton.next_power_of_2(head_dim)
    group_pow, kv_format = triton.next_power_of_2(group), format_of(k_cache)
    splits = splits or num_splits(num_rows, num_kv_heads, block_tables.shape[1] * block_size)
    block_n, warps, stages, ahead = tile(head_dim, q.dtype, kv_format, splits > 1)
    partial, lse, arrived = q, q, arrival_counters(q.device)
    if splits > 1:
        partial = torch.empty((num_rows, num_q_heads, splits, head_dim), dtype=torch.float32, device=q.device)
        lse = torch.empty((num_rows, num_q_heads, splits), dtype=torch.float32, device=q.device)
    if kv_format != "plain":
        k_cache, v_cache, k_scale, v_scale = (as_words(x) for x in (k_cache, v_cache, k_scale, v_scale))
    _decode_kernel[(num_kv_heads, num_programs, splits)](
        q, k_cache, v_cache, q if k_scale is None else k_scale, q if v_scale is None else v_scale,
        block_tables, query_starts, context_lens, out, partial, lse, arrived, num_rows, num_tokens, scale_log2,
        *q.stride()[:2], *out.stride()[:2], block_tables.stride(0), *k_cache.stride()[:3],
        GROUP=group, GROUP_PAD=max(16, group_pow), GROUP_POW=group_pow, HEAD_DIM=head_dim, DIM_PAD=dim_pad,
        BLOCK_SIZE=block_size, BLOCK_N=block_n, CHUNK=max(2, 4096 // (group_pow * dim_pad)), SPLIT=splits > 1,
        FORMAT=kv_format, DOT=dot_type(q.dtype, kv_format, upcast), AHEAD=ahead, PTX=unpack_ptx(kv_format),
        num_warps=warps, num_stages=stages, **dependent_launch(q),
    )  # fmt: skip
