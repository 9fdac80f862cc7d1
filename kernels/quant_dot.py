"""Products of a few tokens with a quantised weight on the tensor cores; fields become numbers on their way there.

Outputs are the long side of a tile, so that the weight is the operand that lives in registers: words go from shared
memory into the layout of the instruction, and a mask, an OR and an FMA later they are its operand; no number is ever
written back. An int8 or fp8 sum meets its scale once, at the end; an int4 sum once a group, in fp32.

Few outputs give few tiles. Then K is shared out among programs as well: each writes its sums, and a second kernel adds
them in a fixed order (the same bits every time), with bias, activation and residual. What a gate needs, two halves of
the outputs, is only there together; so a gated layer always goes that way.
"""

from dataclasses import dataclass
from functools import lru_cache

import torch

from kernels.backend import INTERPRET, dependent_launch, jit, tl, triton, wait_for_inputs
from kernels.quant_words import fields, fields_asm
from kernels.quantise import WORDS, QuantWeight, rounds

SUM_BLOCK = 512  # outputs of a program of the second kernel


@jit
def _tile_product_kernel(
    x_ptr, words_ptr, scale_ptr, bias_ptr, residual_ptr, y_ptr, num_rows, outputs, inputs, runs, share, x_stride,
    FORM: tl.constexpr, ASM: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_M: tl.constexpr, STAGES: tl.constexpr,
    PARTIAL: tl.constexpr, BIAS: tl.constexpr, RESIDUAL: tl.constexpr, EVEN: tl.constexpr, UPCAST: tl.constexpr,
    DEPENDENT: tl.constexpr,
):  # fmt: skip
    """BLOCK_N outputs of BLOCK_M tokens over ``share`` runs of K. PARTIAL: their sums go to (shares, rows, outputs)."""
    ROUNDS: tl.constexpr = 4 if FORM == "int4" else 2
    GROUPED: tl.constexpr = FORM == "int4"
    n, c = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N), tl.arange(0, 64)
    m = tl.program_id(2) * BLOCK_M + tl.arange(0, BLOCK_M)
    in_m, in_n = (m < num_rows)[None, :], n < outputs
    first = tl.program_id(1) * share
    last = tl.minimum(first + share, runs)
    w_at = words_ptr + ((n // 16).to(tl.int64) * runs * 1024 + n % 16 * 64)[:, None] + c[None, :]
    x_at = x_ptr + m[None, :].to(tl.int64) * x_stride + c[:, None]
    s_at = scale_ptr + n
    acc = tl.zeros((BLOCK_N, BLOCK_M), tl.float32)
    left, right = tl.zeros((BLOCK_N,), tl.float32), tl.zeros((BLOCK_N,), tl.float32)
    if GROUPED:  # one run ahead: the loop must not wait for scales
        left = tl.load(s_at + 2 * first * outputs, mask=in_n, other=0.0).to(tl.float32)
        right = tl.load(s_at + (2 * first + 1) * outputs, mask=in_n, other=0.0).to(tl.float32)
    wait_for_inputs(DEPENDENT)
    for run in tl.range(first, last, num_stages=STAGES):
        if EVEN:
            words = tl.load(w_at + run * 1024)
        else:
            words = tl.load(w_at + run * 1024, mask=in_n[:, None], other=0)
        next_left, next_right = left, right
        if GROUPED:
            more = in_n & (run + 1 < last)
            next_left = tl.load(s_at + (2 * run + 2) * outputs, mask=more, other=0.0).to(tl.float32)
            next_right = tl.load(s_at + (2 * run + 3) * outputs, mask=more, other=0.0).to(tl.float32)
        weights = fields(words, x_ptr, FORM, ASM)
        part = acc
        for r in tl.static_range(ROUNDS):
            k = run * (64 * ROUNDS) + 64 * r
            if EVEN:
                x = tl.load(x_at + k, mask=in_m, other=0.0)
            else:
                x = tl.load(x_at + k, mask=in_m & (k + c < inputs)[:, None], other=0.0)
            w = weights[r]
            if UPCAST:
                w, x = w.to(tl.float32), x.to(tl.float32)
            if GROUPED and r % 2 == 0:
                part = tl.dot(w, x, input_precision="ieee")
            else:
                part = tl.dot(w, x, part, input_precision="ieee")
            if GROUPED and r == 1:
                acc += part * left[:, None]
            if GROUPED and r == 3:
                acc += part * right[:, None]
        if not GROUPED:
            acc = part
        left, right = next_left, next_right
    if not GROUPED:
        acc *= tl.load(s_at, mask=in_n, other=0.0)[:, None]
    inside = in_m & in_n[:, None]
    if PARTIAL:
        at = (tl.program_id(1) * num_rows + m[None, :]).to(tl.int64) * outputs + n[:, None]
    else:
        at = m[None, :].to(tl.int64) * outputs + n[:, None]
        if BIAS:
            acc += tl.load(bias_ptr + n, mask=in_n, other=0.0).to(tl.float32)[:, None]
        if RESIDUAL:
            acc += tl.load(residual_ptr + at, mask=inside, other=0.0).to(tl.float32)
    tl.store(y_ptr + at, acc.to(y_ptr.dtype.element_ty), mask=inside)


@jit
def _sum_products_kernel(
    partial_ptr, bias_ptr, residual_ptr, y_ptr, num_rows, outputs, products,
    SHARES: tl.constexpr, BIAS: tl.constexpr, GATED: tl.constexpr, RESIDUAL: tl.constexpr, BLOCK: tl.constexpr,
    DEPENDENT: tl.constexpr,
):  # fmt: skip
    """BLOCK outputs of one token: the sums of all shares, first to last, and what surrounds the product."""
    row, n = tl.program_id(0).to(tl.int64), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = n < outputs
    wait_for_inputs(DEPENDENT)
    y, up = tl.zeros((BLOCK,), tl.float32), tl.zeros((BLOCK,), tl.float32)
    for share in tl.static_range(SHARES):
        at = partial_ptr + (share * num_rows + row) * products + n
        y += tl.load(at, mask=inside, other=0.0)
        if GATED:
            up += tl.load(at + outputs, mask=inside, other=0.0)
    if BIAS:
        y += tl.load(bias_ptr + n, mask=inside, other=0.0).to(tl.float32)
    if GATED:
        if BIAS:
            up += tl.load(bias_ptr + outputs + n, mask=inside, other=0.0).to(tl.float32)
        y = y / (1.0 + tl.exp(-y)) * up
    at = row * outputs + n
    if RESIDUAL:
        y += tl.load(residual_ptr + at, mask=inside, other=0.0).to(tl.float32)
    tl.store(y_ptr + at, y.to(y_ptr.dtype.element_ty), mask=inside)


@dataclass(frozen=True)
class Tile:
    """Outputs and tokens of a program, its warps and stages, and about how many programs fill the device."""

    outputs: int
    rows: int
    warps: int
    stages: int
    programs: int

    def share(self, rows: int, products: int, runs: int) -> int:
        """Runs of K that a program takes, for ``rows`` tokens and a weight of ``products`` outputs."""
        tiles = triton.cdiv(products, self.outputs) * triton.cdiv(rows, self.rows)
        return triton.cdiv(runs, max(1, min(runs, self.programs // tiles)))

    def stage_bytes(self, form: str) -> int:
        """Shared memory of a stage: one run of words, and of x."""
        return 2 * WORDS * (self.outputs + rounds(form) * self.rows)


def tile(form: str, rows: int, products: int) -> Tile:
    """The tile for ``rows`` tokens and a weight of ``products`` outputs, from sweeps on an H200."""
    if rows > 64:
        return Tile(128, 128, 8, 2 if form == "int4" else 3, 144)
    if form == "int4":
        return Tile(128, 16 if rows <= 16 else 32, 4, 3, 288) if rows <= 32 else Tile(64, 64, 4, 3, 264)
    if rows > 32:
        return Tile(128, 64, 8, 3, 288) if products >= 6144 else Tile(128, 64, 8, 4, 128)
    block_m, wide = 16 if rows <= 16 else 32, products >= 16384
    if wide:
        return Tile(128, block_m, 4, 5 if rows <= 16 else 4, 224)
    return Tile(64, block_m, 4, 6 if rows <= 16 else 4, 384)


@lru_cache
def shared_memory(device: torch.device) -> int:
    """Bytes of shared memory that a program may use."""
    if device.type != "cuda":
        return 1 << 20  # the interpreter has as much as it likes
    return triton.runtime.driver.active.utils.get_device_properties(device.index)["max_shared_mem"]


def linear_dot(
    x: torch.Tensor,
    weight: QuantWeight,
    bias: torch.Tensor | None,
    gated: bool,
    residual: torch.Tensor | None,
) -> torch.Tensor:
    """``kernels.quant_linear.linear`` without a norm, on the Triton path; 1 token or more."""
    (rows, inputs), (products, _) = x.shape, weight.shape
    outputs, runs = products // (2 if gated else 1), weight.words.shape[1]
    sizes = tile(weight.form, rows, products)
    share = sizes.share(rows, products, runs)
    shares = triton.cdiv(runs, share)
    stages = min(sizes.stages, shared_memory(x.device) // sizes.stage_bytes(weight.form))
    partial = shares > 1 or gated
    y = residual if residual is not None else torch.empty((rows, outputs), dtype=x.dtype, device=x.device)
    sums = torch.empty((shares, rows, products), dtype=torch.float32, device=x.device) if partial else y
    any_bias, parts = x if bias is None else bias, {"BIAS": bias is not None, "RESIDUAL": residual is not None}
    grid = (triton.cdiv(products, sizes.outputs), shares, triton.cdiv(rows, sizes.rows))
    _tile_product_kernel[grid](
        x, weight.words, weight.scales, any_bias, y, sums, rows, products, inputs, runs, share, x.stride(0),
        FORM=weight.form, ASM=fields_asm(weight.form, x.dtype), BLOCK_N=sizes.outputs, BLOCK_M=sizes.rows,
        STAGES=stages, PARTIAL=partial, **({"BIAS": False, "RESIDUAL": False} if partial else parts),
        EVEN=products % sizes.outputs == 0 and inputs % (WORDS * rounds(weight.form)) == 0,
        UPCAST=INTERPRET and x.dtype == torch.bfloat16, num_warps=sizes.warps, **dependent_launch(x),
    )  # fmt: skip
    if partial:
        _sum_products_kernel[(rows, triton.cdiv(outputs, SUM_BLOCK))](
            sums, any_bias, y, y, rows, outputs, products,
            SHARES=shares, GATED=gated, BLOCK=SUM_BLOCK, **parts, num_warps=4, **dependent_launch(x),
        )  # fmt: skip
    return y
