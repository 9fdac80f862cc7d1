"""Products with quantised weights, run by every backend (fixture ``target``)."""

import pytest
import torch

from kernels import quant_linear
from kernels.dequantise import dequantise
from kernels.quantise import FORMATS as WEIGHT_FORMATS
from kernels.quantise import quantise
from tests.kernels.inputs import poisoned
from tests.kernels.linear_cases import EPS, agrees, formula, layer


@pytest.mark.parametrize(
    ("parts", "dtype"),
    (
        ("", torch.float16),
        ("residual", torch.bfloat16),
        ("norm bias gated", torch.float16),
        ("norm gated", torch.bfloat16),
        ("norm gated", torch.float32),
    ),
    ids=str,
)
@pytest.mark.parametrize("rows", (1, 3, 5, 17))
@pytest.mark.parametrize("form", WEIGHT_FORMATS)
def test_quant_linear(target, form, parts, rows, dtype):
    """Every format, alone and with what surrounds it, on widths that fill no run and no tile; one token and more take
    different kernels. The weights are those that the format stands for, so nothing but rounding may differ."""
    has = {part: part in parts for part in ("bias", "norm", "gated", "residual")}
    x, weight, bias, norm, residual = layer(target, rows, 300, 40, dtype, **has)
    stored = quantise(weight, form)
    expected, before = formula(x, stored.dequantise(), bias, norm, has["gated"], residual), x.clone()
    with poisoned():
        y = quant_linear.linear(
            x, stored, bias, norm=norm, eps=EPS, gated=has["gated"], residual=residual, backend=target.backend
        )
    agrees(y, expected, dtype)
    assert y.dtype == dtype and torch.equal(x, before)
    assert residual is None or y.data_ptr() == residual.data_ptr()


@pytest.mark.parametrize("form", WEIGHT_FORMATS)
@pytest.mark.parametrize(("rows", "inputs", "outputs"), ((2, 1300, 70), (5, 2048, 64), (1, 2048, 64)))
def test_sums_of_shares(target, form, rows, inputs, outputs):
    """Few outputs and long inputs: the shares of K add up, the last one shorter than the others."""
    x, weight, *_, residual = layer(target, rows, inputs, outputs, torch.float16, False, False, False, True)
    stored = quantise(weight, form)
    expected = formula(x, stored.dequantise(), None, None, False, residual)
    agrees(quant_linear.linear(x, stored, residual=residual, backend=target.backend), expected, torch.float16)


@pytest.mark.parametrize("form", WEIGHT_FORMATS)
def test_many_rows(target, form):
    """The largest tiles, the last of them not full, and beyond the crossing the weight written out: the same layer."""
    for rows in (100, quant_linear.MAX_ROWS + 1):
        x, weight, *_ = layer(target, rows, 300, 40, torch.float16, False, False, False, False)
        stored = quantise(weight, form)
        y = quant_linear.linear(x, stored, backend=target.backend)
        agrees(y, formula(x, stored.dequantise(), None, None, False, None), x.dtype)


@pytest.mark.parametrize("dtype", (torch.float32, torch.float16), ids=str)
@pytest.mark.parametrize("form", WEIGHT_FORMATS)
def test_dequantise(target, form, dtype):
    """Written out by the kernel or by the reference: the same bits, whatever is missing in the last run and tile."""
    for outputs, inputs in ((5, 64), (40, 300), (32, 512)):
        stored = quantise(torch.randn(outputs, inputs, device=target.device), form)
        with poisoned():
            assert torch.equal(dequantise(stored, dtype, target.backend), stored.dequantise(dtype))
