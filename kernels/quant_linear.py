"""Linear layers whose weight has 8 or 4 bits a number: fewer bytes to read, while reading them is what takes the time.

    y = act(rmsnorm(x) @ dequantise(weight)^T + bias) + residual        as ``kernels.skinny.linear``

What is fastest depends on the number of tokens. One: CUDA cores, the weight in registers before x is known (quant_row).
A few: tensor cores on fields that become bf16 in registers (quant_dot). Many: arithmetic decides, a product of the
library is faster than any of ours, and the weight is written out for it each time (dequantise). From about 100 tokens
on, the library's product on 16-bit weights would win; a copy of them would cost the memory that the format saves.
"""

import torch

from kernels import skinny
from kernels.backend import check_rows, check_same_device, use_triton
from kernels.dequantise import dequantise
from kernels.quant_dot import linear_dot
from kernels.quant_row import linear_row
from kernels.quantise import QuantWeight
from kernels.rmsnorm import rmsnorm

MAX_ROWS = 256  # tokens of quant_dot: from there on writing the weight out costs less than it saves, on an H200
ROW_INPUTS = 8192  # K of quant_row: longer rows leave few registers, and shares of K are faster
ROW_INT4 = 32_000_000  # weights of quant_row in int4, where the conversion, not the memory, soon sets the pace


def linear_reference(
    x: torch.Tensor,
    weight: QuantWeight,
    bias: torch.Tensor | None = None,
    norm: torch.Tensor | None = None,
    eps: float = 1e-6,
    gated: bool = False,
    residual: torch.Tensor | None = None,
    backend: str | None = "reference",
) -> torch.Tensor:
    """What ``linear`` computes: the dense layer on the weight that is stood for (``backend`` writes it out)."""
    dense = dequantise(weight, x.dtype, backend)
    return skinny.linear_reference(x, dense, bias, norm, eps, gated, residual, backend)


def linear(
    x: torch.Tensor,
    weight: QuantWeight,
    bias: torch.Tensor | None = None,
    *,
    norm: torch.Tensor | None = None,
    eps: float = 1e-6,
    gated: bool = False,
    residual: torch.Tensor | None = None,
    backend: str | None = None,
) -> torch.Tensor:
    """``kernels.skinny.linear`` for a quantised weight: the same arguments, answer and errors.

    The way it is computed depends on the shapes alone.
    """
    if not use_triton(backend, x) or not is_ours(len(x), x.dtype):
        return linear_reference(x, weight, bias, norm, eps, gated, residual, backend)
    check_rows(x=x, norm=norm, bias=bias, residual=residual)
    check_same_device(x, weight=weight.words, norm=norm, bias=bias, residual=residual)
    if len(x) == 1 and is_row(weight):
        return linear_row(x, weight, bias, norm, eps, gated, residual)
    if norm is not None:
        x = rmsnorm(x, norm, eps, backend)
    return linear_dot(x, weight, bias, gated, residual)


def is_ours(rows: int, dtype: torch.dtype) -> bool:
    """Whether a kernel reads the packed weight; otherwise it is written out for the library's product. fp32, which is
    for comparisons, always goes that way: it keeps all its bits."""
    return 0 < rows <= MAX_ROWS and dtype != torch.float32


def is_row(weight: QuantWeight) -> bool:
    """Whether one token is faster on the CUDA cores than on a tile of the tensor cores, from a sweep on an H200."""
    outputs, inputs = weight.shape
    return inputs <= ROW_INPUTS and (weight.form != "int4" or outputs * inputs <= ROW_INT4)
