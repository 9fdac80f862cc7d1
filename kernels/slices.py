"""Products of 2 to 8 tokens with a weight, on tensor cores: y = act(rmsnorm(x) @ weight^T + bias) + residual.

A program owns 16 rows of the weight and *all* of K, which its warps share: nothing is summed across programs, and the
norm of x, a few kilobytes, is recomputed by each. The eight columns of the smallest tensor-core tile hold the tokens.

Two forms. A slice of at most 2,048 inputs is *held*: it is loaded whole before the wait for the kernel that produces x
(dependent launch), so that only x comes after. A longer one is *piped*: the weight is asked into the L2 cache before
the wait and streams through shared memory behind it, as much in flight at once as fits; its x is normed already. The
reference is ``skinny.linear_reference``.
"""

import torch

from kernels.backend import INTERPRET, dependent_launch, jit, tl, wait_for_inputs
from kernels.product_tiles import PROGRAMS, shared_memory
from kernels.products import PREFETCHED, _finish, prefetch, weight_row
from kernels.rmsnorm import rmsnorm

MAX_ROWS = 8
BLOCK_N = 16  # rows of the weight: the first factor of a tensor-core tile
HELD_INPUTS = 2048  # of a held slice: 64 KB, and 96 KB of shared memory with those of x
HELD_WEIGHTS = 8_000_000  # of a held weight: larger ones come in several waves of programs, which nothing overlaps
PIPED_WEIGHTS = 20_000_000
CHUNK = 512  # inputs of a piped tile


@jit
def _slice_kernel(
    x_ptr, norm_ptr, w_ptr, bias_ptr, residual_ptr, y_ptr, rows, outputs, x_stride, w_stride, y_stride, eps,
    K: tl.constexpr, CHUNK: tl.constexpr, SHARES: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    STAGES: tl.constexpr, SPAN: tl.constexpr, NORM: tl.constexpr, BIAS: tl.constexpr, GATED: tl.constexpr,
    RESIDUAL: tl.constexpr, UPCAST: tl.constexpr, DEPENDENT: tl.constexpr,
):  # fmt: skip
    """BLOCK_N rows of the weight and all of K per program; warp i takes the i-th of SHARES parts of each chunk."""
    if DEPENDENT:
        tl.extra.cuda.gdc_launch_dependents()  # at once: the way of the weight into shared memory would hold it up
    first = tl.program_id(0) * (BLOCK_N // 2 if GATED else BLOCK_N)
    n, m = weight_row(tl.arange(0, BLOCK_N), first, outputs, GATED), tl.arange(0, BLOCK_M)
    PART: tl.constexpr = CHUNK // SHARES
    k = (tl.arange(0, SHARES) * PART)[:, None, None] + tl.arange(0, PART)[None, None, :]
    x_at = x_ptr + (m * x_stride)[None, :, None] + k
    w_at = w_ptr + (n.to(tl.int64) * w_stride)[None, :, None] + k
    inside = (m < rows)[None, :, None]
    scale = 1.0
    if K == CHUNK:
        w = tl.load(w_at, eviction_policy="evict_first")
        if NORM:
            norm = tl.load(norm_ptr + k).to(tl.float32)
        wait_for_inputs(DEPENDENT)
        x = tl.load(x_at, mask=inside, other=0.0)
        if NORM:
            wide = x.to(tl.float32)
            scale = tl.rsqrt(tl.sum(tl.sum(wide * wide, axis=2), axis=0) / K + eps)[:, None]
            x = (wide * norm).to(x.dtype)  # a row's scale is one factor of all its sums: it can wait
        if UPCAST:
            x, w = x.to(tl.float32), w.to(tl.float32)
        acc = tl.dot(w, tl.permute(x, (0, 2, 1)))
    else:
        if DEPENDENT:
            THREADS: tl.constexpr = 32 * SHARES
            row = weight_row(tl.arange(0, THREADS) // (THREADS // BLOCK_N), first, outputs, GATED)
            prefetch(w_ptr + row.to(tl.int64) * w_stride, SPAN, THREADS, BLOCK_N)
        wait_for_inputs(DEPENDENT)
        acc = tl.zeros((SHARES, BLOCK_N, BLOCK_M), tl.float32)
        for start in tl.range(0, K, CHUNK, num_stages=STAGES):
            x = tl.load(x_at + start, mask=inside, other=0.0)
            w = tl.load(w_at + start, eviction_policy="evict_first")
            if UPCAST:
                x, w = x.to(tl.float32), w.to(tl.float32)
            acc = tl.dot(w, tl.permute(x, (0, 2, 1)), acc)
    y = tl.trans(tl.sum(acc, axis=0)) * scale
    _finish(y, bias_ptr, residual_ptr, y_ptr, m, n, rows, first, y_stride, BLOCK_M, BLOCK_N, BIAS, GATED, RESIDUAL)


def is_held(outputs: int, inputs: int) -> bool:
    """Whether a program can hold its slice of a weight (outputs, inputs)."""
    return 256 <= inputs <= HELD_INPUTS and inputs & (inputs - 1) == 0 and outputs * inputs <= HELD_WEIGHTS


def is_faster(rows: int, outputs: int, inputs: int) -> bool:
    """Whether this beats norm + cuBLAS + activation and the split product, for a weight (outputs, inputs).

    By sweeps on an H200: by 10 to 45 % of the composed time.
    """
    piped = inputs % CHUNK == 0 and outputs * inputs <= PIPED_WEIGHTS and outputs <= 4096
    return rows <= MAX_ROWS and outputs % BLOCK_N == 0 and (is_held(outputs, inputs) or piped)


def tile(outputs: int, inputs: int, shared: int) -> tuple[int, int, int]:
    """(inputs of a chunk, shares, stages). 256 inputs a warp when held; piped, all of K in flight if that fits into
    ``shared`` bytes, beside the other programs of a multiprocessor."""
    if is_held(outputs, inputs):
        return inputs, inputs // 256, 1
    fitting = shared // (2 * CHUNK * (BLOCK_N + MAX_ROWS))
    return CHUNK, 4, min(inputs // CHUNK + 1, fitting, 8 if outputs // BLOCK_N <= PROGRAMS else 5)


def product(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    norm: torch.Tensor | None,
    eps: float,
    gated: bool,
    residual: torch.Tensor | None,
) -> torch.Tensor:
    """See ``skinny.linear``; at most ``MAX_ROWS`` rows. In fp16 x is normed first: x * norm alone may be too large."""
    (rows, inputs), outputs = x.shape, weight.shape[0] // (2 if gated else 1)
    chunk, shares, stages = tile(*weight.shape, shared_memory(x.device))
    if norm is not None and (chunk < inputs or x.dtype == torch.float16):
        x, norm = rmsnorm(x, norm, eps, backend="triton"), None
    y = residual if residual is not None else torch.empty((rows, outputs), dtype=x.dtype, device=x.device)
    _slice_kernel[(weight.shape[0] // BLOCK_N,)](
        x, x if norm is None else norm, weight, x if bias is None else bias, y, y,
        rows, outputs, x.stride(0), weight.stride(0), y.stride(0), eps,
        K=inputs, CHUNK=chunk, SHARES=shares, BLOCK_M=MAX_ROWS, BLOCK_N=BLOCK_N, STAGES=stages,
        SPAN=min(2 * PREFETCHED, inputs), NORM=norm is not None, BIAS=bias is not None, GATED=gated,
        RESIDUAL=residual is not None, UPCAST=INTERPRET and x.dtype == torch.bfloat16, num_warps=shares,
        **dependent_launch(x),
    )  # fmt: skip
    return y
