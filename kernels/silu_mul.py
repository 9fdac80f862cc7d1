"""SiLU-mul, the gate of a Llama-style MLP: ``y = silu(gate) * up`` for ``gate_up = [gate | up]``, halves of each row.

Fused because it is pure memory traffic: one pass reads 2I and writes I elements of a token (6I bytes in bf16), where
silu followed by a product would move 10I. The two halves come out of one matrix product, so no copy splits them.
"""

import torch
from torch.nn import functional

from kernels.backend import check_rows, dependent_launch, jit, tl, triton, use_triton, wait_for_inputs


def silu_mul_reference(gate_up: torch.Tensor) -> torch.Tensor:
    """What ``silu_mul`` computes, in plain PyTorch."""
    gate, up = gate_up.float().chunk(2, dim=-1)
    return functional.silu(gate).mul_(up).to(gate_up.dtype)


@jit
def _silu_mul_kernel(x_ptr, y_ptr, width, x_stride, y_stride, BLOCK: tl.constexpr, DEPENDENT: tl.constexpr):
    """BLOCK outputs of one row per program."""
    row = tl.program_id(0).to(tl.int64)
    col = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    wait_for_inputs(DEPENDENT)
    gate = tl.load(x_ptr + row * x_stride + col, mask=col < width, other=0.0).to(tl.float32)
    up = tl.load(x_ptr + row * x_stride + width + col, mask=col < width, other=0.0).to(tl.float32)
    y = gate / (1.0 + tl.exp(-gate)) * up
    tl.store(y_ptr + row * y_stride + col, y.to(y_ptr.dtype.element_ty), mask=col < width)


def silu_mul(gate_up: torch.Tensor, backend: str | None = None) -> torch.Tensor:
    """``silu(gate) * up`` for ``gate_up`` (T, 2I), any row stride; returns (T, I) of the same dtype.

    Raises:
        ValueError: on the Triton path, for a last dimension that is not contiguous.
    """
    if not use_triton(backend, gate_up):
        return silu_mul_reference(gate_up)
    check_rows(gate_up=gate_up)
    num_rows, width = gate_up.shape[0], gate_up.shape[1] // 2
    y = torch.empty((num_rows, width), dtype=gate_up.dtype, device=gate_up.device)
    if num_rows:
        block = min(1024, triton.next_power_of_2(width))
        grid = (num_rows, triton.cdiv(width, block))
        strides = gate_up.stride(0), y.stride(0)
        _silu_mul_kernel[grid](gate_up, y, width, *strides, BLOCK=block, num_warps=4, **dependent_launch(gate_up))
    return y
