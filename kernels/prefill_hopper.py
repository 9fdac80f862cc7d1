"""``kernels.prefill`` for Hopper GPUs (compute capability 9.0), written in Gluon: the same tiles, formula and answer.

What the compiler of the portable kernel cannot be told is said here. Four groups of warps of a program work side by
side and meet at barriers in shared memory (``kernels.hopper_tiles``):

    load K, load V   one warp each: looks up a tile's blocks and has the copy engine (TMA) fetch them
    attend, twice    64 lanes each: the scores of a tile, and the product of the weights of the tile before with its
                     values, are in flight on the tensor cores while the softmax runs; two groups fill each other's gaps

A copy is what a tile needs of one block, so scattered blocks cost what consecutive ones do. The grid is that of the
portable kernel; the heads of a tile of tokens run side by side, as their queries and answers are neighbours in memory.
8-bit caches are left to the portable kernel.
"""

import math
from functools import lru_cache

import torch
import triton
from triton.experimental.gluon import jit
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, mbarrier
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

from kernels.hopper_tiles import attend, load

VERSIONS = ((3, 6), (3, 7))  # of Triton: Gluon is young and still changes; with others the portable kernel runs
LAYOUT = gl.NVMMASharedLayout(swizzle_byte_width=128, element_bitwidth=16, rank=2)
WARPS = 4  # of a group that attends


@jit(do_not_specialize=["num_rows", "num_tokens", "num_lines", "table_stride"])
def _prefill_hopper_kernel(
    q_ptr, k_desc, v_desc, table_ptr, query_start_ptr, context_ptr, out_ptr,
    num_rows, num_tokens, num_lines, scale_log2,
    q_stride_token, q_stride_head, out_stride_token, out_stride_head, table_stride,
    GROUP: gl.constexpr, HEAD_DIM: gl.constexpr, BLOCK_SIZE: gl.constexpr, BLOCK_N: gl.constexpr, STAGES: gl.constexpr,
    ROWS_PAD: gl.constexpr,
):  # fmt: skip
    """One tile of tokens and one KV head per program; the search for its row is that of ``kernels.prefill``."""
    TOKENS: gl.constexpr = 64 // GROUP * 2
    kv_head, num_heads = gl.program_id(0), gl.num_programs(0)
    tile = gl.num_programs(1) - 1 - gl.program_id(1)
    rows = gl.arange(0, ROWS_PAD, layout=gl.BlockedLayout([1], [32], [gl.num_warps()], [0]))
    first_tiles = gl.load(query_start_ptr + rows, mask=rows <= num_rows, other=0).to(gl.int32) // TOKENS + rows
    row = gl.sum(((first_tiles <= tile) & (rows <= num_rows)).to(gl.int32), axis=0) - 1
    begin = gl.load(query_start_ptr + row).to(gl.int32)
    end = gl.load(query_start_ptr + row + 1, mask=row < num_rows, other=num_tokens).to(gl.int32)
    length = end - begin
    first = (tile - begin // TOKENS - row) * TOKENS
    if (first >= length) | ((length == 1) & (row < num_rows)):
        return
    context = gl.load(context_ptr + row, mask=row < num_rows, other=0).to(gl.int32)
    keys = gl.maximum(gl.minimum(context, context - length + first + TOKENS), 0)
    tiles = (keys + BLOCK_N - 1) // BLOCK_N
    table = table_ptr + row.to(gl.int64) * table_stride

    DIM_PAD: gl.constexpr = k_desc.block_shape[1]
    BARRIER: gl.constexpr = mbarrier.MBarrierLayout()
    k_smem = gl.allocate_shared_memory(k_desc.dtype, [STAGES, BLOCK_N, DIM_PAD], k_desc.layout)
    v_smem = gl.allocate_shared_memory(k_desc.dtype, [STAGES, BLOCK_N, DIM_PAD], k_desc.layout)
    q_smem = gl.allocate_shared_memory(k_desc.dtype, [2, 64, DIM_PAD], k_desc.layout)
    k_ready = gl.allocate_shared_memory(gl.int64, [STAGES, 1], BARRIER)
    v_ready = gl.allocate_shared_memory(gl.int64, [STAGES, 1], BARRIER)
    k_free = gl.allocate_shared_memory(gl.int64, [STAGES, 1], BARRIER)
    v_free = gl.allocate_shared_memory(gl.int64, [STAGES, 1], BARRIER)
    for stage in gl.static_range(STAGES):
        mbarrier.init(k_ready.index(stage), count=1)
        mbarrier.init(v_ready.index(stage), count=1)
        mbarrier.init(k_free.index(stage), count=2)  # both groups that attend
        mbarrier.init(v_free.index(stage), count=2)
    fence_async_shared()
    ring = (k_smem, v_smem, k_ready, v_ready, k_free, v_free)
    gl.warp_specialize(
        [
            (attend, (
                0, q_smem.index(0), ring, tiles, begin, length, context, first, kv_head, scale_log2,
                q_ptr, q_stride_token, q_stride_head, out_ptr, out_stride_token, out_stride_head, GROUP, HEAD_DIM,
            )),
            (attend, (
                1, q_smem.index(1), ring, tiles, begin, length, context, first, kv_head, scale_log2,
                q_ptr, q_stride_token, q_stride_head, out_ptr, out_stride_token, out_stride_head, GROUP, HEAD_DIM,
            )),
            (load, (
                k_desc, k_smem, k_ready, k_free, table, tiles, context, kv_head, num_heads, num_lines, BLOCK_SIZE,
            )),
            (load, (
                v_desc, v_smem, v_ready, v_free, table, tiles, context, kv_head, num_heads, num_lines, BLOCK_SIZE,
            )),
        ],
        [4, 1, 1],
        [232, 40, 40],  # registers of a thread: 65,536 in all, for 128 + 128 + 128 threads
    )  # fmt: skip


def tile(head_dim: int) -> tuple[int, int]:
    """(BLOCK_N, stages): keys of a tile and tiles in flight, as many as registers and shared memory hold."""
    if head_dim > 128:
        return 64, 2
    return (128, 4) if head_dim <= 64 else (128, 2)


def box(head_dim: int, block_size: int) -> list[int]:
    """Tokens and dimensions of one copy: the most tokens that divide both a block and a tile."""
    return [math.gcd(block_size, tile(head_dim)[0]), triton.next_power_of_2(head_dim)]


def rows_pad(num_rows: int) -> int:
    """Rows that a program searches for its own. Few sizes: each is compiled for itself, which takes seconds."""
    return 32 if num_rows < 32 else max(512, triton.next_power_of_2(num_rows + 1))


@lru_cache
def _is_served(device: torch.device) -> bool:
    """Whether it is a Hopper GPU, under a Triton that this kernel was tested with."""
    version = tuple(map(int, triton.__version__.split(".")[:2]))
    return version in VERSIONS and device.type == "cuda" and torch.cuda.get_device_capability(device) == (9, 0)


def serves(q: torch.Tensor, k_cache: torch.Tensor, v_cache: torch.Tensor) -> bool:
    """Whether this kernel can run such a step: 16-bit numbers, laid out for copies of 16 bytes and whole blocks."""
    aligned = (*q.stride()[:2], *(x.data_ptr() for x in (q, k_cache, v_cache)))
    return (
        _is_served(q.device)
        and q.dtype in (torch.float16, torch.bfloat16)
        and k_cache.dtype == v_cache.dtype == q.dtype
        and k_cache.is_contiguous()
        and v_cache.is_contiguous()
        and k_cache.shape[2] % 8 == 0
        and k_cache.numel() // k_cache.shape[3] < 2**31
        and all(n % 16 == 0 for n in aligned)
    )


def launch(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    block_tables: torch.Tensor,
    query_starts: torch.Tensor,
    context_lens: torch.Tensor,
    scale_log2: float,
    out: torch.Tensor,
) -> None:
    """As ``launch_prefill``, where ``serves`` holds."""
    num_rows, (num_tokens, num_q_heads, head_dim) = context_lens.numel(), q.shape
    num_kv_heads, block_size = k_cache.shape[1:3]
    group, num_lines = num_q_heads // num_kv_heads, k_cache.numel() // head_dim
    block_n, stages = tile(head_dim)
    shape, strides, copied = [num_lines, head_dim], [head_dim, 1], box(head_dim, block_size)
    descs = [TensorDescriptor(cache, shape, strides, copied, LAYOUT) for cache in (k_cache, v_cache)]
    _prefill_hopper_kernel[(num_kv_heads, num_tokens // (64 // group * 2) + num_rows + 1)](
        q, *descs, block_tables, query_starts, context_lens, out,
        num_rows, num_tokens, num_lines, scale_log2, *q.stride()[:2], *out.stride()[:2], block_tables.stride(0),
        GROUP=group, HEAD_DIM=head_dim, BLOCK_SIZE=block_size, BLOCK_N=block_n, STAGES=stages,
        ROWS_PAD=rows_pad(num_rows), num_warps=WARPS,
    )  # fmt: skip
