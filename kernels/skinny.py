"""Linear layers of a decode step: few tokens, so a product is one read of its weight, and its time bytes / bandwidth.

    y = act(rmsnorm(x) @ weight^T + bias) + residual        act: silu(first half) * second half; each part optional

Libraries leave such products at a third of the bandwidth, and the norm, activation and residual around them cost as
much again in launches. Which kernel runs follows from the shapes alone:

    1 token (2 to 4 of odd widths, or in fp32)   this file: CUDA cores, the weight in registers
    2 to 8                                       slices: tensor cores, all of K in one program, norm inside
    9 to 64                                      norm kernel, then products: tensor cores, K split over programs
    more, or a weight so large that it is all    norm kernel, cuBLAS (which adds the residual), activation kernel

The fused kernel of this file: a program owns a few outputs and *all* of K, so nothing is summed across programs; every
program recomputes the norm from x, a few kilobytes that stay in the L2 cache. Dependent launch (Hopper and newer): it
loads its whole slice of the weight into registers before it waits for the kernel that produces x, so the read of the
weights overlaps the end of that kernel. Only weights may be touched before the wait.
"""

import math

import torch
from torch.nn import functional

from kernels import product_tiles, products, slices
from kernels.backend import (
    check_rows,
    check_same_device,
    dependent_launch,
    jit,
    tl,
    triton,
    use_triton,
    wait_for_inputs,
)
from kernels.rmsnorm import rmsnorm
from kernels.silu_mul import silu_mul

MAX_ROWS = 4  # tokens of the fused kernel: each costs a pass over the registers that hold the weights
MAX_INPUTS = 8192  # K of the fused kernel: a row of the weight is one tile, and longer ones leave few registers
MAX_PRODUCTS = 24_000_000  # rows * N * K of the fused kernel beyond one token
WARPS = 1024  # about eight for each multiprocessor: all bytes of a small weight are in flight at once


def linear_reference(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    norm: torch.Tensor | None = None,
    eps: float = 1e-6,
    gated: bool = False,
    residual: torch.Tensor | None = None,
    backend: str | None = "reference",
) -> torch.Tensor:
    """What ``linear`` computes, composed of norm, PyTorch's product and activation (``backend`` runs the other two)."""
    if norm is not None:
        x = rmsnorm(x, norm, eps, backend=backend)
    if residual is not None and bias is None and not gated:
        return residual.addmm_(x, weight.t())
    y = functional.linear(x, weight, bias)
    if gated:
        y = silu_mul(y, backend=backend)
    return y if residual is None else residual.add_(y)


@jit
def _products(w, x, bias_ptr, n, scale, BIAS: tl.constexpr):
    """(BLOCK_N,) products of the rows ``w`` (BLOCK_N, K) with ``x`` (K,), in fp32."""
    y = tl.sum(w.to(tl.float32) * x[None, :], axis=1) * scale
    if BIAS:
        y += tl.load(bias_ptr + n).to(tl.float32)
    return y


@jit
def _linear_kernel(
    x_ptr, norm_ptr, w_ptr, bias_ptr, residual_ptr, y_ptr, outputs, x_stride, w_stride, y_stride, eps,
    ROWS: tl.constexpr, K: tl.constexpr, K_PAD: tl.constexpr, BLOCK_N: tl.constexpr,
    NORM: tl.constexpr, BIAS: tl.constexpr, GATED: tl.constexpr, RESIDUAL: tl.constexpr, DEPENDENT: tl.constexpr,
):  # fmt: skip
    """BLOCK_N outputs of all ROWS tokens per program; gated: output n needs the weight rows n and ``outputs`` + n."""
    n, k = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N), tl.arange(0, K_PAD)
    in_k = k < K
    w_at = w_ptr + n[:, None].to(tl.int64) * w_stride + k[None, :]
    w = tl.load(w_at, mask=in_k[None, :], other=0.0)
    up = w
    if GATED:
        up = tl.load(w_at + tl.cast(outputs, tl.int64) * w_stride, mask=in_k[None, :], other=0.0)
    if NORM:
        norm = tl.load(norm_ptr + k, mask=in_k, other=0.0).to(tl.float32)
    wait_for_inputs(DEPENDENT)
    for row in tl.static_range(ROWS):
        x = tl.load(x_ptr + row * x_stride + k, mask=in_k, other=0.0).to(tl.float32)
        scale = 1.0
        if NORM:
            scale = tl.rsqrt(tl.sum(x * x, axis=0) / K + eps)
            x *= norm
        y = _products(w, x, bias_ptr, n, scale, BIAS)
        if GATED:
            y = y / (1.0 + tl.exp(-y)) * _products(up, x, bias_ptr + outputs, n, scale, BIAS)
        at = row * y_stride + n
        if RESIDUAL:
            y += tl.load(residual_ptr + at).to(tl.float32)
        tl.store(y_ptr + at, y.to(y_ptr.dtype.element_ty))


def is_fused(rows: int, outputs: int, inputs: int) -> bool:
    """Whether the fused kernel beats norm + cuBLAS + activation, for a weight (outputs, inputs).

    One token: always (1.2 to 6 times on an H200). More: each costs a pass over the registers, 0.31 us for a million
    weights, which outweighs the launches that are saved once the weight is large.
    """
    if inputs > MAX_INPUTS:
        return False
    return rows == 1 or (rows <= MAX_ROWS and rows * outputs * inputs <= MAX_PRODUCTS)


def tile(rows: int, outputs: int, inputs_pad: int, gated: bool, item_size: int) -> tuple[int, int]:
    """(outputs, warps) of a program, from sweeps on an H200.

    As many weights a thread as registers allow (256 bytes; half beside the sums of several tokens); fewer where that
    leaves less than WARPS warps to fill the device, and where long rows need several waves of programs anyway.
    """
    warps = 1 if inputs_pad <= 2048 else 4 if rows > 1 or inputs_pad <= 4096 else 8
    bytes_of_row = inputs_pad * item_size * (2 if gated else 1)
    held = 256 if rows == 1 else 128
    if warps == 8 and outputs * bytes_of_row > held * 32 * WARPS:
        held = 64
    block = max(1, held * 32 * warps // bytes_of_row)
    while block > 1 and outputs // block * warps < WARPS:
        block //= 2
    return math.gcd(block, outputs), warps


def fits_tensor_cores(x: torch.Tensor, weight: torch.Tensor) -> bool:
    """16-bit numbers, and a weight whose rows begin at multiples of 16 bytes. (fp32 keeps its precision elsewhere.)"""
    aligned = weight.stride(0) % 8 == 0 and weight.data_ptr() % 16 == 0
    return aligned and x.dtype == weight.dtype and x.dtype in (torch.float16, torch.bfloat16)


def linear(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    *,
    norm: torch.Tensor | None = None,
    eps: float = 1e-6,
    gated: bool = False,
    residual: torch.Tensor | None = None,
    backend: str | None = None,
) -> torch.Tensor:
    """A linear layer with what surrounds it in a decoder. The way it is computed depends on the shapes alone.

    Args:
        x: (M, K), any row stride. Not changed.
        weight: (N, K), any row stride.
        bias: (N,), or None.
        norm: (K,), weight of the RMSNorm that x passes first, or None.
        gated: the outputs are halves ``[gate | up]`` and the answer is ``silu(gate) * up``.
        residual: (M, outputs), contiguous, updated in place to residual + answer and returned; or None.

    Returns:
        (M, N), or (M, N / 2) when gated, of the dtype of ``x``.

    Raises:
        ValueError: on the Triton path, for a last dimension that is not contiguous.
    """
    if not use_triton(backend, x) or not len(x):
        return linear_reference(x, weight, bias, norm, eps, gated, residual, backend)
    check_rows(x=x, weight=weight, norm=norm, bias=bias, residual=residual)
    check_same_device(x, weight=weight, norm=norm, bias=bias, residual=residual)
    sizes = len(x), *weight.shape
    tensor_cores = fits_tensor_cores(x, weight)
    if tensor_cores and len(x) > 1 and slices.is_faster(*sizes):
        return slices.product(x, weight, bias, norm, eps, gated, residual)
    if is_fused(*sizes):
        return _fused(x, weight, bias, norm, eps, gated, residual)
    split = product_tiles.choose(*sizes, norm is not None, gated, x.device) if tensor_cores else None
    if split is None:
        return linear_reference(x, weight, bias, norm, eps, gated, residual, backend)
    x = x if norm is None else rmsnorm(x, norm, eps, backend=backend)
    return products.product(x, weight, bias, gated, residual, split)


def _fused(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    norm: torch.Tensor | None,
    eps: float,
    gated: bool,
    residual: torch.Tensor | None,
) -> torch.Tensor:
    """The fused kernel of this file."""
    (rows, inputs), outputs = x.shape, weight.shape[0] // (2 if gated else 1)
    y = residual if residual is not None else torch.empty((rows, outputs), dtype=x.dtype, device=x.device)
    inputs_pad = triton.next_power_of_2(inputs)
    block, warps = tile(rows, outputs, inputs_pad, gated, weight.element_size())
    _linear_kernel[(outputs // block,)](
        x, x if norm is None else norm, weight, x if bias is None else bias, y, y,
        outputs, x.stride(0), weight.stride(0), y.stride(0), eps,
        ROWS=rows, K=inputs, K_PAD=inputs_pad, BLOCK_N=block, NORM=norm is not None, BIAS=bias is not None,
        GATED=gated, RESIDUAL=residual is not None, num_warps=warps, **dependent_launch(x),
    )  # fmt: skip
    return y
