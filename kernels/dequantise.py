"""A quantised weight written out in 16 or 32 bits: for so many tokens that a product no longer waits for its weight."""

import torch

from kernels.backend import dependent_launch, jit, tl, triton, use_triton, wait_for_inputs
from kernels.quant_words import fields, fields_asm
from kernels.quantise import QuantWeight

RUNS = 4  # of one program


@jit
def _dequantise_kernel(
    words_ptr, scale_ptr, y_ptr, outputs, inputs, runs,
    FORM: tl.constexpr, ASM: tl.constexpr, RUNS: tl.constexpr, DEPENDENT: tl.constexpr,
):  # fmt: skip
    """Sixteen outputs and RUNS runs of them per program."""
    ROUNDS: tl.constexpr = 4 if FORM == "int4" else 2
    SCALES: tl.constexpr = 2 if FORM == "int4" else 0  # of a run; 0: of the whole output
    n, c = tl.program_id(0) * 16 + tl.arange(0, 16), tl.arange(0, 64)
    in_n = n < outputs
    wait_for_inputs(DEPENDENT)
    for i in tl.static_range(RUNS):
        run = tl.program_id(1) * RUNS + i
        w_at = words_ptr + (tl.program_id(0).to(tl.int64) * runs + run) * 1024
        words = tl.load(w_at + tl.arange(0, 16)[:, None] * 64 + c[None, :], mask=run < runs, other=0)
        weights = fields(words, y_ptr, FORM, ASM)
        for r in tl.static_range(ROUNDS):
            s_at = scale_ptr + (run * SCALES + r // 2) * outputs + n
            scale = tl.load(s_at, mask=in_n & (run < runs), other=0.0).to(tl.float32)
            k = run * (64 * ROUNDS) + 64 * r + c
            y_at = y_ptr + n[:, None].to(tl.int64) * inputs + k[None, :]
            y = (weights[r].to(tl.float32) * scale[:, None]).to(y_ptr.dtype.element_ty)
            tl.store(y_at, y, mask=in_n[:, None] & (k < inputs)[None, :])


def dequantise(weight: QuantWeight, dtype: torch.dtype, backend: str | None = None) -> torch.Tensor:
    """``weight`` as a new (N, K) of ``dtype``, each number rounded once (the reference: ``QuantWeight.dequantise``)."""
    if not use_triton(backend, weight.words):
        return weight.dequantise(dtype)
    outputs, inputs = weight.shape
    y = torch.empty(outputs, inputs, dtype=dtype, device=weight.words.device)
    tiles, runs = weight.words.shape[:2]
    _dequantise_kernel[(tiles, triton.cdiv(runs, RUNS))](
        weight.words, weight.scales, y, outputs, inputs, runs,
        FORM=weight.form, ASM=fields_asm(weight.form, dtype), RUNS=RUNS, num_warps=4, **dependent_launch(y),
    )  # fmt: skip
    return y
