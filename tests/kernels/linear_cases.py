"""Linear layers with norm, activation and residual, run by every backend (fixture ``target``)."""

import pytest
import torch

from kernels.skinny import linear
from tests.kernels.inputs import TOLERANCE, poisoned

DTYPES = (torch.float32, torch.float16, torch.bfloat16)
EPS = 1e-6


def formula(x, weight, bias, norm, gated, residual):
    """The layer in fp64."""
    x = x.double()
    if norm is not None:
        x = x / (x.square().mean(-1, keepdim=True) + EPS).sqrt() * norm.double()
    y = x @ weight.double().t()
    if bias is not None:
        y += bias.double()
    if gated:
        gate, up = y.chunk(2, -1)
        y = gate * gate.sigmoid() * up
    return y if residual is None else residual.double() + y


def layer(target, rows, inputs, outputs, dtype, bias, norm, gated, residual):
    """Random arguments of ``linear``; answers of about 1."""
    shapes = (rows, inputs), (outputs, inputs), (outputs,), (inputs,), (rows, outputs // (2 if gated else 1))
    wanted = True, True, bias, norm, residual
    x, weight, *rest = (torch.randn(s).to(target.device, dtype) if w else None for s, w in zip(shapes, wanted))
    return x, weight / inputs**0.5, *rest


def agrees(actual, expected, dtype):
    """Within a few roundings of the dtype (the composed path rounds after each part)."""
    tolerance = 4 * TOLERANCE[dtype]
    torch.testing.assert_close(actual.double(), expected, atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("rows", (1, 3, 4, 7))
@pytest.mark.parametrize("parts", ("", "bias", "norm", "norm bias gated", "residual", "norm gated residual"))
def test_C_10_linear(target, dtype, rows, parts):
    """Every part alone and together, with few rows (fused) and more (composed); the inputs keep their bits (C-10)."""
    has = {part: part in parts for part in ("bias", "norm", "gated", "residual")}
    x, weight, bias, norm, residual = layer(target, rows, 96, 40, dtype, **has)
    expected, before = formula(x, weight, bias, norm, has["gated"], residual), x.clone()
    with poisoned():
        y = linear(x, weight, bias, norm=norm, eps=EPS, gated=has["gated"], residual=residual, backend=target.backend)
    agrees(y, expected, dtype)
    assert y.dtype == dtype and torch.equal(x, before)
    assert residual is None or y.data_ptr() == residual.data_ptr()


TENSOR_CORES = ((2, 512, 64), (8, 256, 32), (7, 1536, 32), (9, 512, 64), (20, 384, 128), (33, 256, 64), (64, 640, 64))


@pytest.mark.parametrize("dtype", (torch.float16, torch.bfloat16), ids=str)
@pytest.mark.parametrize(("rows", "inputs", "outputs"), TENSOR_CORES)
@pytest.mark.parametrize("parts", ("", "bias residual", "norm bias gated"))
def test_linear_on_tensor_cores(target, dtype, rows, inputs, outputs, parts):
    """Two to 64 rows: slices that are held and piped, K split into even and uneven shares, padded rows; twice, because
    the arrival counters of the first call must be zero again for the second."""
    has = {part: part in parts for part in ("bias", "norm", "gated", "residual")}
    x, weight, bias, norm, residual = layer(target, rows, inputs, outputs, dtype, **has)
    expected, before = formula(x, weight, bias, norm, has["gated"], residual), x.clone()
    answers = []
    for again in (residual, None if residual is None else residual.clone()):
        with poisoned():
            around = {"norm": norm, "eps": EPS, "gated": has["gated"], "residual": again, "backend": target.backend}
            answers.append(linear(x, weight, bias, **around))
    agrees(answers[0], expected, dtype)
    assert torch.equal(*answers) and torch.equal(x, before)


def test_large_numbers_in_half_precision(target):
    """fp16: a row of x times a large norm weight leaves the range before the row's scale brings it back."""
    x, weight, _, norm, _ = layer(target, 3, 256, 32, torch.float16, False, True, False, False)
    x, norm = x * 3000, norm * 30
    y = linear(x, weight, norm=norm, eps=EPS, backend=target.backend) / 30
    agrees(y, formula(x, weight, None, norm, False, None) / 30, torch.float16)


def test_weights_off_the_grid(target):
    """A view of a wider buffer, whose rows begin anywhere, stays away from kernels that copy 16 bytes at once."""
    x, weight, *_ = layer(target, 8, 256, 32, torch.bfloat16, False, False, False, False)
    view = torch.cat((torch.full_like(weight, torch.nan), weight, weight[:, :1]), dim=1)[:, 256:512]
    agrees(linear(x, view, backend=target.backend), formula(x, weight, None, None, False, None), torch.bfloat16)


@pytest.mark.parametrize(("inputs", "outputs"), ((64, 6), (100, 34), (1000, 10)))
def test_widths_that_fill_no_tile(target, inputs, outputs):
    """K below its power of two and outputs below a program's share: the masked lanes weigh nothing."""
    x, weight, *_, residual = layer(target, 2, inputs, outputs, torch.float32, False, False, False, True)
    expected = formula(x, weight, None, None, False, residual)
    agrees(linear(x, weight, residual=residual, backend=target.backend), expected, torch.float32)


def test_rows_of_wider_buffers(target):
    """x and the weight may be views with any row stride."""
    x, weight, _, norm, _ = layer(target, 2, 128, 24, torch.float32, False, True, False, False)
    views = (torch.cat((t, torch.full_like(t, torch.nan)), dim=1)[:, :128] for t in (x, weight))
    y = linear(*views, norm=norm, eps=EPS, backend=target.backend)
    agrees(y, formula(x, weight, None, norm, False, None), torch.float32)


def test_no_rows(target):
    """An empty step gives an empty answer."""
    x, weight, *_ = layer(target, 0, 64, 8, torch.float32, False, False, False, False)
    assert linear(x, weight, backend=target.backend).shape == (0, 8)
