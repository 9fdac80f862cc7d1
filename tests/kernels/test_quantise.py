"""The quantiser alone, on the CPU: bounds of the rounding, packing, and inputs that break a careless one."""

import pytest
import torch

from kernels.quantise import (
    BITS,
    FORMATS,
    GROUP,
    QuantWeight,
    group_steps,
    pack,
    quantise,
    rounds,
    stored_bytes,
    unpack,
)

SHAPES = ((5, 64), (16, 128), (33, 300), (64, 1024))


def bound(weight, form):
    """The largest error that each number of ``weight`` may have."""
    if form == "int8":  # half a step
        return (weight.abs().amax(1, keepdim=True) / 127 / 2).expand_as(weight)
    if form == "fp8":  # half a unit in the last of four bits, or of the smallest step
        return (weight.abs() / 16).maximum(weight.abs().amax(1, keepdim=True) / 448 * 2.0**-10)
    padded = torch.nn.functional.pad(weight, (0, -weight.shape[1] % GROUP)).unflatten(1, (-1, GROUP))
    step = padded.abs().amax(2, keepdim=True) / 8 * (1 + 2.0**-5)  # a scale has 8 bits; up to +8.03 steps are cut to +7
    return step.expand_as(padded).flatten(1)[:, : weight.shape[1]]


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_no_weight_is_further_than_its_step(form, shape):
    """Guards scale, rounding, packing and unpacking at once: every number comes back within its own bound."""
    weight = torch.randn(shape)
    error = (quantise(weight, form).dequantise() - weight).abs()
    assert (error <= bound(weight, form) * (1 + 1e-5)).all()


@pytest.mark.parametrize(("form", "most"), (("int8", 0.009), ("fp8", 0.028), ("int4", 0.106)))
def test_error_of_normal_weights(form, most):
    """Guards the quality: a scale that wastes steps (int4 of -7..7: 0.117) shows as a larger relative error."""
    weight = torch.randn(256, 1024, generator=torch.Generator().manual_seed(0))
    stored = quantise(weight, form)
    error = stored.split([256])[0].relative_error(weight)
    assert 0.5 * most < error < most
    assert error == pytest.approx(((stored.dequantise() - weight).norm() / weight.norm()).item(), rel=1e-4)


@pytest.mark.parametrize("form", FORMATS)
def test_C_12_zeros_of_weights_stay_zeros(form):
    """Guards a scale of 0: an output, a group or a whole weight of zeros gives zeros, not NaN."""
    weight = torch.randn(20, 300)
    weight[3], weight[7, :128] = 0, 0
    found = quantise(weight, form).dequantise()
    assert found.isfinite().all() and not found[3].any() and not found[7, :128].any()
    assert not quantise(torch.zeros(4, 64), form).dequantise().any()


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("size", (1e-30, 1e30))
def test_extreme_sizes(form, size):
    """Guards overflow and underflow of scales: the relative error does not depend on the unit."""
    weight = torch.randn(8, 256, generator=torch.Generator().manual_seed(1))
    assert quantise(weight * size, form).split([8])[0].relative_error(weight * size) < 0.12


@pytest.mark.parametrize("form", FORMATS)
def test_packing_is_undone(form):
    """Guards the order of fields: every code in every place, against a formula that does not share the code."""
    codes = torch.randint(0, 1 << BITS[form], (3, 2 * 64 * rounds(form)), dtype=torch.int32)
    if form == "fp8":
        codes[(codes & 127) == 127] = 0  # NaN
    words = pack(codes, form)
    for round_, run, place in ((0, 0, 0), (rounds(form) - 1, 1, 63)):
        code = codes[1, run * 64 * rounds(form) + 64 * round_ + place]
        assert (int(words[1, run, place]) >> (BITS[form] * round_)) & ((1 << BITS[form]) - 1) == code
    numbers = {"int4": lambda c: c - 8.0, "int8": lambda c: c.to(torch.int8).float()}
    fp8 = codes.to(torch.int8).view(torch.float8_e4m3fn).float() if form == "fp8" else None
    assert torch.equal(unpack(words, form), fp8 if form == "fp8" else numbers[form](codes))


@pytest.mark.parametrize("form", FORMATS)
def test_parts_are_filled_one_by_one(form):
    """Guards streaming: q, k and v quantised into their rows of one weight, at offsets inside a tile, are the same
    bits as the whole at once; and the bytes are those that the memory map counts."""
    weight, whole = torch.randn(57, 300), QuantWeight.empty(form, 57, 300)
    for place, part in zip(whole.split([33, 11, 13]), weight.split([33, 11, 13])):
        assert place.shape == part.shape
        place.copy_(part.double())
    at_once = quantise(weight, form)
    assert torch.equal(whole.words, at_once.words) and torch.equal(whole.scales, at_once.scales)
    assert whole.words.nbytes + whole.scales.nbytes == stored_bytes(form, 57, 300)


def test_smaller_groups_err_less():
    """Guards the curve of the lesson: error grows with the group, from outliers above all."""
    weight = torch.randn(64, 2048, generator=torch.Generator().manual_seed(2))
    weight[:, ::97] *= 8
    errors = []
    for group in (32, 128, 512, 2048):
        steps, scales = group_steps(weight, group)
        stood_for = steps.unflatten(1, (-1, group)) * scales.float()[:, :, None]
        errors.append((stood_for.flatten(1) - weight).norm().item())
    assert errors == sorted(errors) and errors[0] < 0.7 * errors[-1]
