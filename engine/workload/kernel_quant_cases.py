"""The cases of ``bench kernels`` with quantised weights. Their peer is the engine's own layer in bf16: the gain."""

from collections.abc import Iterator

import torch
from torch import Tensor

from engine.workload.kernel_case import EPS, Case, random, sets
from kernels import quant_linear
from kernels.quantise import FORMATS, QuantWeight, quantise, stored_bytes
from kernels.skinny import linear


def formats_of(device: str) -> tuple[str, ...]:
    """Weight formats that the device has kernels for (fp8: from compute capability 8.9)."""
    converts = device != "cuda" or torch.cuda.get_device_capability() >= (8, 9)
    return FORMATS if converts else tuple(form for form in FORMATS if form != "fp8")


def quant_cases(device: str) -> Iterator[Case]:
    """The products of an 8B layer in 8 and 4 bits beside the same in bf16: reads the weight and its scales."""
    shapes = [(6144, 4096, "norm"), (4096, 4096, "residual"), (28672, 4096, "gated"), (4096, 14336, "residual")]
    for form in formats_of(device):
        for outputs, inputs, part in shapes if device == "cuda" else [(64, 256, "norm")]:
            size = stored_bytes(form, outputs, inputs)
            count = sets(2 * outputs * inputs, device)
            dense = [random(outputs, inputs, device=device) / inputs**0.5 for _ in range(count)]
            stored = [quantise(dense[i % count], form) for i in range(sets(size, device))]
            for rows in (1, 16, 64) if device == "cuda" else (1,):
                yield _quant_case(form, rows, stored, dense, part)


def _quant_case(form: str, rows: int, stored: list[QuantWeight], dense: list[Tensor], part: str) -> Case:
    """One format, number of tokens and layer: ``part`` is what surrounds the product."""
    outputs, inputs = stored[0].shape
    x = random(rows, inputs, device=dense[0].device)
    norm = None if part == "residual" else random(inputs, device=x.device)
    residual = random(rows, outputs, device=x.device) if part == "residual" else None
    start = None if residual is None else residual.float()
    around = {"norm": norm, "eps": EPS, "gated": part == "gated", "residual": residual}
    wide = around | {"norm": None if norm is None else norm.float(), "residual": start}
    return Case(
        f"quant {form}",
        f"M={rows}, {inputs} -> {outputs}",
        [lambda w=w: quant_linear.linear(x, w, **around) for w in stored],
        lambda: quant_linear.linear_reference(x.float(), stored[0], **wide),
        stored_bytes(form, outputs, inputs),
        peers={"bf16": [lambda w=w: linear(x, w, **around) for w in dense]},
    )
