"""RMSNorm, alone and fused with the residual add that precedes it.

    y[t] = x[t] / sqrt(mean(x[t]^2) + eps) * weight

Fused because the work is all memory traffic: ``add_rmsnorm`` reads x and residual and writes residual and y, 8 bytes an
element in bf16, where an add followed by a norm would move 12. A row stays in registers between its two uses. Sums and
products run in fp32; the residual is rounded to its own dtype first and the norm sees the rounded value, as in the
unfused formula.
"""

import torch

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


def rmsnorm_reference(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """What ``rmsnorm`` computes, in plain PyTorch."""
    h = x.float()
    scale = torch.rsqrt(h.square().mean(-1, keepdim=True).add_(eps))
    return (h * scale).mul_(weight).to(x.dtype)


def add_rmsnorm_reference(x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """What ``add_rmsnorm`` computes, in plain PyTorch."""
    residual.add_(x)
    return rmsnorm_reference(residual, weight, eps)


@jit
def _rmsnorm_kernel(
    x_ptr, residual_ptr, weight_ptr, y_ptr, num_rows, hidden, x_stride, residual_stride, y_stride, eps,
    ADD: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr, DEPENDENT: tl.constexpr,
):  # fmt: skip
    """ROWS rows per program, each whole in registers: one read, one write, no second pass over memory."""
    row = (tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS))[:, None]
    col = tl.arange(0, BLOCK)[None, :]
    inside = (row < num_rows) & (col < hidden)
    weight = tl.load(weight_ptr + col, mask=col < hidden, other=0.0).to(tl.float32)
    wait_for_inputs(DEPENDENT)
    h = tl.load(x_ptr + row * x_stride + col, mask=inside, other=0.0).to(tl.float32)
    if ADD:
        residual = residual_ptr + row * residual_stride + col
        total = (h + tl.load(residual, mask=inside, other=0.0).to(tl.float32)).to(residual_ptr.dtype.element_ty)
        tl.store(residual, total, mask=inside)
        h = total.to(tl.float32)
    scale = tl.rsqrt(tl.sum(h * h, axis=1) / hidden + eps)[:, None]
    tl.store(y_ptr + row * y_stride + col, (h * scale * weight).to(y_ptr.dtype.element_ty), mask=inside)


def rmsnorm(x: torch.Tensor, weight: torch.Tensor, eps: float, backend: str | None = None) -> torch.Tensor:
    """RMSNorm of each row of ``x`` (T, H), any row stride; returns a new (T, H) of the same dtype.

    Raises:
        ValueError: on the Triton path, for a last dimension that is not contiguous.
    """
    if not use_triton(backend, x):
        return rmsnorm_reference(x, weight, eps)
    return _launch(x, None, weight, eps)


def add_rmsnorm(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float, backend: str | None = None
) -> torch.Tensor:
    """Add ``x`` (T, H) to ``residual`` in place, return the RMSNorm of the sum. Strides and errors as ``rmsnorm``."""
    if not use_triton(backend, x):
        return add_rmsnorm_reference(x, residual, weight, eps)
    return _launch(x, residual, weight, eps)


def tile(num_rows: int, hidden: int) -> tuple[int, int, int]:
    """(rows per program, padded width, warps). Few rows: one each, for latency. Many short rows: 4,096 elements."""
    block = triton.next_power_of_2(hidden)
    rows = 1 if num_rows <= 1024 else max(1, 4096 // block)
    return rows, block, min(16, max(1, rows * block // 1024))


def _launch(x: torch.Tensor, residual: torch.Tensor | None, weight: torch.Tensor, eps: float) -> torch.Tensor:
    check_rows(x=x, residual=residual, weight=weight)
    check_same_device(x, residual=residual, weight=weight)
    num_rows, hidden = x.shape
    y = torch.empty((num_rows, hidden), dtype=x.dtype, device=x.device)
    if num_rows:
        rows, block, warps = tile(num_rows, hidden)
        _rmsnorm_kernel[(triton.cdiv(num_rows, rows),)](
            x, x if residual is None else residual, weight, y, num_rows, hidden,
            x.stride(0), 0 if residual is None else residual.stride(0), y.stride(0), eps,
            ADD=residual is not None, ROWS=rows, BLOCK=block, num_warps=warps, **dependent_launch(x),
        )  # fmt: skip
    return y
