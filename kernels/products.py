"""Products of 9 to 64 tokens with a weight, on tensor cores: y = act(x @ weight^T + bias) + residual.

So few tokens leave a product bound by the read of its weight, and small weights by latency: a library's tiles fill a
fraction of the device, and its kernels start one after the other. Here K is split over programs where the outputs alone
are too few, every program has most of its share in flight at once, and activation and residual cost no launch.

Split K without a second kernel and without float atomics: each program leaves its fp32 sums in a workspace, and the
one that arrives last at an output tile adds all of them in a fixed order, so that the same input gives the same bits.
It also sets the arrival counter back to zero, so that a CUDA graph can replay the product. (The counters belong to a
device: its products must not run in two streams at once.)

Dependent launch: before the wait each program only asks for the weight to be brought into the L2 cache. The reference
is ``skinny.linear_reference``; which tile runs, ``product_tiles``.
"""

from functools import lru_cache

import torch

from kernels.backend import INTERPRET, dependent_launch, jit, tl, wait_for_inputs
from kernels.product_tiles import Tile

PREFETCHED = 1024  # weights of a row that a program asks for ahead: more would push out what others need
WARPS = 4


@jit
def weight_row(i, first, outputs, GATED: tl.constexpr) -> "tl.tensor":
    """Row of the weight of a program's i-th sum. Gated: gate and up of an output in turn, so one thread gets both."""
    if GATED:
        return first + i // 2 + i % 2 * outputs
    return first + i


@jit
def _finish(
    y, bias_ptr, residual_ptr, y_ptr, m, n, rows, first, y_stride,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BIAS: tl.constexpr, GATED: tl.constexpr, RESIDUAL: tl.constexpr,
):  # fmt: skip
    """Bias, activation and residual of the sums ``y`` (BLOCK_M, BLOCK_N) of weight rows ``n``, and the one rounding."""
    if BIAS:
        y += tl.load(bias_ptr + n).to(tl.float32)[None, :]
    if GATED:
        gate, up = tl.split(tl.reshape(y, (BLOCK_M, BLOCK_N // 2, 2)))
        y = gate / (1.0 + tl.exp(-gate)) * up
        at = m[:, None] * y_stride + (first + tl.arange(0, BLOCK_N // 2))[None, :]
    else:
        at = m[:, None] * y_stride + n[None, :]
    inside = (m < rows)[:, None]
    if RESIDUAL:
        y += tl.load(residual_ptr + at, mask=inside, other=0.0).to(tl.float32)
    tl.store(y_ptr + at, y.to(y_ptr.dtype.element_ty), mask=inside)


@jit
def prefetch(w_at, SPAN: tl.constexpr, THREADS: tl.constexpr, BLOCK_N: tl.constexpr) -> None:
    """Ask for the first SPAN weights of the rows that begin at ``w_at`` (THREADS,), one piece for each thread."""
    PIECE: tl.constexpr = SPAN * BLOCK_N // THREADS
    at = w_at + tl.arange(0, THREADS) % (THREADS // BLOCK_N) * PIECE
    size = tl.full((THREADS,), PIECE * 2, tl.int32)
    tl.inline_asm_elementwise(
        "cp.async.bulk.prefetch.L2.global [$1], $2; mov.b32 $0, 0;", "=r,l,r", [at.to(tl.int64), size],
        dtype=tl.int32, is_pure=False, pack=1,
    )  # fmt: skip


@jit
def _product_kernel(
    x_ptr, w_ptr, bias_ptr, residual_ptr, y_ptr, partial_ptr, arrived_ptr,
    rows, outputs, x_stride, w_stride, y_stride,
    K: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, SPLITS: tl.constexpr,
    STAGES: tl.constexpr, SPAN: tl.constexpr, THREADS: tl.constexpr, BIAS: tl.constexpr, GATED: tl.constexpr,
    RESIDUAL: tl.constexpr, UPCAST: tl.constexpr, DEPENDENT: tl.constexpr,
):  # fmt: skip
    """BLOCK_N sums over one share of K for all rows per program. The weight is the first factor where it fills the 64
    rows that tensor cores want there, else x is."""
    SWAP: tl.constexpr = BLOCK_N >= 64
    tile, split = tl.program_id(0), tl.program_id(1)
    first = tile * (BLOCK_N // 2 if GATED else BLOCK_N)
    m, lane = tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_K)
    n = weight_row(tl.arange(0, BLOCK_N), first, outputs, GATED)
    begin = split * (K // BLOCK_K) // SPLITS * BLOCK_K
    end = (split + 1) * (K // BLOCK_K) // SPLITS * BLOCK_K
    if DEPENDENT:
        row = weight_row(tl.arange(0, THREADS) // (THREADS // BLOCK_N), first, outputs, GATED)
        prefetch(w_ptr + row.to(tl.int64) * w_stride + begin, SPAN, THREADS, BLOCK_N)
    wait_for_inputs(DEPENDENT)

    x_at = x_ptr + m[:, None] * x_stride + lane[None, :]
    w_at = w_ptr + n[:, None].to(tl.int64) * w_stride + lane[None, :]
    inside = (m < rows)[:, None]
    acc = tl.zeros((BLOCK_N, BLOCK_M) if SWAP else (BLOCK_M, BLOCK_N), tl.float32)
    for k in tl.range(begin, end, BLOCK_K, num_stages=STAGES):
        x = tl.load(x_at + k, mask=inside, other=0.0)
        w = tl.load(w_at + k, eviction_policy="evict_first")
        if UPCAST:
            x, w = x.to(tl.float32), w.to(tl.float32)
        if SWAP:
            acc = tl.dot(w, tl.trans(x), acc)
        else:
            acc = tl.dot(x, tl.trans(w), acc)
    y = tl.trans(acc) if SWAP else acc

    if SPLITS > 1:
        sums = partial_ptr + tile * (SPLITS * BLOCK_M * BLOCK_N) + m[:, None] * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
        tl.store(sums + split * (BLOCK_M * BLOCK_N), y, mask=inside)
        tl.debug_barrier()  # all warps have stored before one thread says so
        if tl.atomic_add(arrived_ptr + tile, 1, sem="acq_rel") < SPLITS - 1:
            return
        tl.store(arrived_ptr + tile, 0)
        y = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for other in tl.static_range(SPLITS):
            y += tl.load(sums + other * (BLOCK_M * BLOCK_N), mask=inside, other=0.0, cache_modifier=".cg")
    _finish(y, bias_ptr, residual_ptr, y_ptr, m, n, rows, first, y_stride, BLOCK_M, BLOCK_N, BIAS, GATED, RESIDUAL)


@lru_cache
def _arrivals(device: torch.device) -> torch.Tensor:
    """Counters of the programs that have arrived at each output tile; zero between products."""
    return torch.zeros(4096, dtype=torch.int32, device=device)


def product(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    gated: bool,
    residual: torch.Tensor | None,
    tile: Tile,
) -> torch.Tensor:
    """See ``skinny.linear``; x is normed already, and of at most ``tile.block_m`` rows."""
    (rows, inputs), outputs = x.shape, weight.shape[0] // (2 if gated else 1)
    y = residual if residual is not None else torch.empty((rows, outputs), dtype=x.dtype, device=x.device)
    tiles, partial, arrived = weight.shape[0] // tile.block_n, y, y  # not touched by a single share
    if tile.splits > 1:
        size = tiles * tile.splits * tile.block_m * tile.block_n
        partial, arrived = torch.empty(size, dtype=torch.float32, device=x.device), _arrivals(x.device)
    _product_kernel[(tiles, tile.splits)](
        x, weight, x if bias is None else bias, y, y, partial, arrived,
        rows, outputs, x.stride(0), weight.stride(0), y.stride(0),
        K=inputs, BLOCK_M=tile.block_m, BLOCK_N=tile.block_n, BLOCK_K=tile.block_k, SPLITS=tile.splits,
        STAGES=tile.stages, SPAN=min(PREFETCHED, inputs // tile.splits // 128 * 128), THREADS=32 * WARPS,
        BIAS=bias is not None, GATED=gated, RESIDUAL=residual is not None,
        UPCAST=INTERPRET and x.dtype == torch.bfloat16, num_warps=WARPS, **dependent_launch(x),
    )  # fmt: skip
    return y
