"""What the groups of warps of ``kernels.prefill_hopper`` do: bring tiles of keys and values, and attend over them.

Tiles travel through a ring of buffers in shared memory, last tile first, so that the masked ones come first. Each
buffer has two barriers: ``ready`` says that it holds what was asked for, ``free`` that its readers are done. A barrier
completes one phase per use of its buffer, and a wait names the parity of that phase.
"""

from triton.experimental.gluon import jit
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)


@jit
def load(
    desc, smem, ready, free, table_ptr, tiles, context, kv_head, num_heads, num_lines, BLOCK_SIZE: gl.constexpr
) -> None:
    """Bring the tiles of K or V. ``desc`` sees a cache as lines of one token and head; lines past the end are filled
    with zeros, and stand for tokens past the context."""
    STAGES: gl.constexpr = smem.shape[0]
    BLOCK_N: gl.constexpr = smem.shape[1]
    BOX: gl.constexpr = desc.block_shape[0]  # tokens of one copy: they lie in one block
    for count in range(tiles):
        start = (tiles - 1 - count) * BLOCK_N
        lines = ()  # looked up before the wait for a free buffer, which hides it
        for box in gl.static_range(BLOCK_N // BOX):
            at = start + box * BOX
            block = gl.load(table_ptr + at // BLOCK_SIZE, mask=at < context, other=0).to(gl.int32)
            line = (block * num_heads + kv_head) * BLOCK_SIZE + at % BLOCK_SIZE
            lines += (gl.where(at < context, line, num_lines),)
        stage = count % STAGES
        mbarrier.wait(free.index(stage), (count // STAGES & 1) ^ 1)
        mbarrier.expect(ready.index(stage), BLOCK_N * smem.shape[2] * 2)
        for box in gl.static_range(BLOCK_N // BOX):
            into = smem.index(stage).slice(box * BOX, BOX)
            tma.async_copy_global_to_shared(desc, [lines[box], 0], ready.index(stage), into)


@jit
def attend(
    part: gl.constexpr, q_smem, ring, tiles, begin, length, context, first, kv_head, scale_log2,
    q_ptr, q_stride_token, q_stride_head, out_ptr, out_stride_token, out_stride_head,
    GROUP: gl.constexpr, HEAD_DIM: gl.constexpr,
) -> None:  # fmt: skip
    """Attention of the first (``part`` 0) or last 64 lanes (tokens x query heads) of a tile of queries, the first of
    which is the ``first`` of its row."""
    k_smem, v_smem, k_ready, v_ready, k_free, _v_free = ring
    BLOCK_N: gl.constexpr = k_smem.shape[1]
    DIM_PAD: gl.constexpr = k_smem.shape[2]
    SHARE: gl.constexpr = 64 // GROUP
    SCORES: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_N, 16])
    OUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, DIM_PAD, 16])
    WEIGHTS: gl.constexpr = gl.DotOperandLayout(0, OUT, 2)
    WIDE: gl.constexpr = min(DIM_PAD // 8, 32)
    ROWS: gl.constexpr = gl.BlockedLayout([1, 8], [32 // WIDE, WIDE], [4, 1], [1, 0])  # 16 bytes a thread

    seen_by_all = gl.maximum(context - length + first + 1, 0) // BLOCK_N  # tiles without a mask
    first += part * SHARE
    lane, dim = gl.arange(0, 64, layout=gl.SliceLayout(1, ROWS)), gl.arange(0, DIM_PAD, layout=gl.SliceLayout(0, ROWS))
    query, head = first + lane // GROUP, kv_head * GROUP + lane % GROUP
    token = (begin + query).to(gl.int64)
    inside = ((lane < SHARE * GROUP) & (query < length))[:, None] & (dim < HEAD_DIM)[None, :]
    best = gl.full((64,), -1.0e30, gl.float32, layout=gl.SliceLayout(1, SCORES))  # finite, as in the portable kernel
    total = gl.zeros((64,), gl.float32, layout=gl.SliceLayout(1, SCORES))
    acc = gl.zeros((64, DIM_PAD), gl.float32, layout=OUT)
    if tiles > 0:
        q_from = q_ptr + token[:, None] * q_stride_token + head[:, None] * q_stride_head + dim[None, :]
        q_smem.store(gl.load(q_from, mask=inside, other=0.0))
        fence_async_shared()
        last_seen = context - length + first + gl.arange(0, 64, layout=gl.SliceLayout(1, SCORES)) // GROUP
        start = (tiles - 1) * BLOCK_N
        mbarrier.wait(k_ready.index(0), 0)
        empty = gl.zeros((64, BLOCK_N), gl.float32, layout=SCORES)
        scores = warpgroup_mma(q_smem, k_smem.index(0).permute((1, 0)), empty, use_acc=False)
        mbarrier.arrive(k_free.index(0), count=1)
        if start + BLOCK_N > context:
            mbarrier.wait(v_ready.index(0), 0)
            _clear_behind(v_smem.index(0), context - start, ROWS)
        scores = _hide(scores, start, last_seen, BLOCK_N)
        weight, best, total, _shrink = _softmax(scores, best, total, scale_log2)
        p = gl.convert_layout(weight.to(k_smem.dtype), WEIGHTS)
        masked = tiles - gl.minimum(seen_by_all, tiles - 1)
        p, best, total, acc = _fold(
            1, masked, tiles, p, best, total, acc, last_seen, q_smem, ring, scale_log2, True, SCORES, WEIGHTS
        )
        p, best, total, acc = _fold(
            masked, tiles, tiles, p, best, total, acc, last_seen, q_smem, ring, scale_log2, False, SCORES, WEIGHTS
        )
        acc = _multiply_last(p, acc, v_smem, v_ready, tiles - 1)
    acc = acc / gl.convert_layout(gl.where(total > 0, total, 1.0), gl.SliceLayout(1, OUT))[:, None]
    q_smem.store(acc.to(q_smem.dtype))  # turned into rows on the way out
    out = out_ptr + token[:, None] * out_stride_token + head[:, None] * out_stride_head + dim[None, :]
    gl.store(out, q_smem.load(ROWS), mask=inside)


@jit
def _fold(
    begin, end, tiles, p, best, total, acc, last_seen, q_smem, ring, scale_log2,
    MASKED: gl.constexpr, SCORES: gl.constexpr, WEIGHTS: gl.constexpr,
):  # fmt: skip
    """Fold the ``begin``-th to ``end``-th tile that came into the running softmax. ``p``: the weights of the tile
    before, whose product with its values runs beside the softmax of the next."""
    k_smem, v_smem, k_ready, v_ready, k_free, v_free = ring
    STAGES: gl.constexpr = k_smem.shape[0]
    BLOCK_N: gl.constexpr = k_smem.shape[1]
    empty = gl.zeros((64, BLOCK_N), gl.float32, layout=SCORES)
    for count in range(begin, end):
        stage, before = count % STAGES, (count - 1) % STAGES
        v_phase = (count - 1) // STAGES & 1
        mbarrier.wait(k_ready.index(stage), count // STAGES & 1)
        k = k_smem.index(stage).permute((1, 0))
        scores = warpgroup_mma(q_smem, k, empty, use_acc=False, is_async=True)
        mbarrier.wait(v_ready.index(before), v_phase)
        added = warpgroup_mma(p, v_smem.index(before), acc, is_async=True)
        scores = warpgroup_mma_wait(1, deps=(scores,))
        mbarrier.arrive(k_free.index(stage), count=1)
        if MASKED:
            scores = _hide(scores, (tiles - 1 - count) * BLOCK_N, last_seen, BLOCK_N)
        weight, best, total, shrink = _softmax(scores, best, total, scale_log2)
        # ready long since: its branch keeps the assembler from moving the softmax behind the wait for the product
        mbarrier.wait(v_ready.index(before), v_phase)
        acc, p = warpgroup_mma_wait(0, deps=(added, p))
        mbarrier.arrive(v_free.index(before), count=1)
        p = gl.convert_layout(weight.to(k_smem.dtype), WEIGHTS)
        acc = acc * gl.convert_layout(shrink, gl.SliceLayout(1, acc.type.layout))[:, None]
    return p, best, total, acc


@jit
def _multiply_last(p, acc, v_smem, v_ready, count):
    """The product that no further tile hides."""
    STAGES: gl.constexpr = v_smem.shape[0]
    mbarrier.wait(v_ready.index(count % STAGES), count // STAGES & 1)
    return warpgroup_mma(p, v_smem.index(count % STAGES), acc)


@jit
def _softmax(scores, best, total, scale_log2):
    """Weights of a tile of scores, the new maximum and sum, and what earlier weights shrink by."""
    new_best = gl.maximum(best, gl.max(scores, axis=1) * scale_log2)
    weight = gl.exp2(scores * scale_log2 - new_best[:, None])
    shrink = gl.exp2(best - new_best)
    return weight, new_best, total * shrink + gl.sum(weight, axis=1), shrink


@jit
def _hide(scores, start, last_seen, BLOCK_N: gl.constexpr):
    """Keys ``start ..`` behind the last one that a query may see weigh nothing."""
    position = start + gl.arange(0, BLOCK_N, layout=gl.SliceLayout(0, scores.type.layout))
    return gl.where(position[None, :] <= last_seen[:, None], scores, float("-inf"))


@jit
def _clear_behind(smem, filled, ROWS: gl.constexpr):
    """Zero the values of a tile from token ``filled`` on: whatever the unused slots of a block hold, 0 x NaN is NaN.
    Both groups do it, and write the same bits."""
    token = gl.arange(0, smem.shape[0], layout=gl.SliceLayout(1, ROWS))
    smem.store(gl.where((token < filled)[:, None], smem.load(ROWS), 0.0))
    fence_async_shared()
