"""The product of one token with a quantised weight: a program holds a few outputs whole, in registers, before it waits.

As ``kernels.skinny``, whose weights become fp32 in one instruction. Here a register holds four or eight of them, and at
full bandwidth a thread has three and a half instructions for a weight of 4 bits; so nothing may be converted twice or
moved. A field of 4 bits that is masked into the mantissa of a float adds itself to 128 or 2,048 (bits 16 or 12; other
fields are shifted there two at a time): less than one and a half instructions before the product. The offsets are not
taken away from the weights but, times the sum of the inputs, from the sum, once for all outputs of the program; what
that loses is 2^-13 of a step. A byte is put beneath the exponent of 2^23 (int8), or converted by the hardware (fp8).
"""

import math

import torch

from kernels.backend import INTERPRET, dependent_launch, jit, tl, triton, wait_for_inputs
from kernels.quantise import QuantWeight


@jit
def _spread(x, RUNS: tl.constexpr, ROUNDS: tl.constexpr):
    """(64 * ROUNDS * RUNS,) inputs -> by register, (32 * RUNS,) each: those of its low word, then of its high word."""
    x = tl.permute(tl.reshape(x, (RUNS, ROUNDS, 32, 2)), (0, 2, 3, 1))
    if ROUNDS == 2:
        low, high = tl.split(tl.reshape(x, (RUNS * 32, 2, 2)))
        a, c = tl.split(low)
        b, d = tl.split(high)
        return a, b, c, d
    else:
        even, odd = tl.split(tl.reshape(x, (RUNS * 32, 2, 2, 2)))  # rounds 0, 2 and 1, 3
        first, third = tl.split(even)
        second, fourth = tl.split(odd)
        a, e = tl.split(first)
        b, f = tl.split(second)
        c, g = tl.split(third)
        d, h = tl.split(fourth)
        return a, b, c, d, e, f, g, h


@jit
def _number(w, PLACE: tl.constexpr, FORM: tl.constexpr):
    """The weight at a place of each register, fp32: what the assembly below does, in plain operations."""
    if FORM == "int4":
        return ((w >> (4 * PLACE)) & 15).to(tl.float32) + (128.0 if PLACE % 2 == 0 else 2048.0)
    else:
        code = (w >> (8 * PLACE)).to(tl.int8)
        if FORM == "fp8":
            code = code.to(tl.float8e4nv, bitcast=True)
        return code.to(tl.float32)


@jit
def _numbers(w, FORM: tl.constexpr, ASM: tl.constexpr):
    """The four or eight weights of each register; int4: plus 128 at even places, plus 2,048 at odd ones."""
    if FORM == "int4":
        if ASM == "":
            a, b, c, d = _number(w, 0, FORM), _number(w, 1, FORM), _number(w, 2, FORM), _number(w, 3, FORM)
            return a, b, c, d, _number(w, 4, FORM), _number(w, 5, FORM), _number(w, 6, FORM), _number(w, 7, FORM)
        else:
            return tl.inline_asm_elementwise(
                ASM, "=&f,=&f,=&f,=&f,=&f,=&f,=&f,=&f,r", [w],
                dtype=(tl.float32, tl.float32, tl.float32, tl.float32, tl.float32, tl.float32, tl.float32, tl.float32),
                is_pure=True, pack=1,
            )  # fmt: skip
    else:
        if ASM == "":
            return _number(w, 0, FORM), _number(w, 1, FORM), _number(w, 2, FORM), _number(w, 3, FORM)
        else:
            return tl.inline_asm_elementwise(
                ASM, "=&f,=&f,=&f,=&f,r", [w],
                dtype=(tl.float32, tl.float32, tl.float32, tl.float32), is_pure=True, pack=1,
            )  # fmt: skip


@jit
def _load_words(words_ptr, n, RUNS: tl.constexpr, RUNS_PAD: tl.constexpr):
    """(outputs ``n``, 32 * RUNS_PAD) registers."""
    c = tl.arange(0, RUNS_PAD * 32)
    at = ((n // 16).to(tl.int64) * (RUNS * 512) + n % 16 * 32)[:, None] + (c // 32 * 512 + c % 32)[None, :]
    return tl.load(words_ptr + at, mask=(c < RUNS * 32)[None, :], other=0)


@jit
def _load_scales(scale_ptr, n, HALF: tl.constexpr, products, BLOCK_N: tl.constexpr, RUNS: tl.constexpr,
                 RUNS_PAD: tl.constexpr, FORM: tl.constexpr):  # fmt: skip
    """Scales of outputs ``n``: int4: of a half of each run, as wide as the registers; else one for each output."""
    if FORM == "int4":
        run = tl.arange(0, RUNS_PAD)[None, :]
        scales = tl.load(scale_ptr + (2 * run + HALF) * products + n[:, None], mask=run < RUNS, other=0.0)
        wide = tl.broadcast_to(scales.to(tl.float32)[:, :, None], (BLOCK_N, RUNS_PAD, 32))
        return tl.reshape(wide, (BLOCK_N, RUNS_PAD * 32))
    else:
        return tl.load(scale_ptr + n)


@jit
def _row_sum(w, left, right, x, FORM: tl.constexpr, ASM: tl.constexpr):
    """(outputs,) sums over K; ``x``: the inputs of ``_spread`` and, for int4, minus the offsets times their sums."""
    q = _numbers(w, FORM, ASM)
    if FORM == "int4":
        a = q[0] * x[0][None, :] + x[8][None, :]
        a += q[1] * x[1][None, :]
        a += q[4] * x[4][None, :]
        a += q[5] * x[5][None, :]
        b = q[2] * x[2][None, :] + x[9][None, :]
        b += q[3] * x[3][None, :]
        b += q[6] * x[6][None, :]
        b += q[7] * x[7][None, :]
        return tl.sum(a * left + b * right, axis=1)
    else:
        a = q[0] * x[0][None, :]
        a += q[1] * x[1][None, :]
        a += q[2] * x[2][None, :]
        a += q[3] * x[3][None, :]
        return tl.sum(a, axis=1) * left


@jit
def _row_product_kernel(
    x_ptr, norm_ptr, words_ptr, scale_ptr, bias_ptr, residual_ptr, y_ptr, outputs, products, eps,
    K: tl.constexpr, FORM: tl.constexpr, ASM: tl.constexpr, RUNS: tl.constexpr, RUNS_PAD: tl.constexpr,
    BLOCK_N: tl.constexpr, NORM: tl.constexpr, BIAS: tl.constexpr, GATED: tl.constexpr, RESIDUAL: tl.constexpr,
    DEPENDENT: tl.constexpr,
):  # fmt: skip
    """BLOCK_N outputs per program; gated: output n needs the rows n and ``outputs`` + n of the weight."""
    ROUNDS: tl.constexpr = 4 if FORM == "int4" else 2
    n, k = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N), tl.arange(0, RUNS_PAD * 64 * ROUNDS)
    w = _load_words(words_ptr, n, RUNS, RUNS_PAD)
    left = _load_scales(scale_ptr, n, 0, products, BLOCK_N, RUNS, RUNS_PAD, FORM)
    right = _load_scales(scale_ptr, n, 1, products, BLOCK_N, RUNS, RUNS_PAD, FORM)
    if GATED:
        up = _load_words(words_ptr, n + outputs, RUNS, RUNS_PAD)
        up_left = _load_scales(scale_ptr, n + outputs, 0, products, BLOCK_N, RUNS, RUNS_PAD, FORM)
        up_right = _load_scales(scale_ptr, n + outputs, 1, products, BLOCK_N, RUNS, RUNS_PAD, FORM)
    if NORM:
        norm = tl.load(norm_ptr + k, mask=k < K, other=0.0).to(tl.float32)
    wait_for_inputs(DEPENDENT)
    x = tl.load(x_ptr + k, mask=k < K, other=0.0).to(tl.float32)
    length = 1.0
    if NORM:
        length = tl.rsqrt(tl.sum(x * x, axis=0) / K + eps)
        x *= norm
    x = _spread(x, RUNS_PAD, ROUNDS)
    if FORM == "int4":  # the offsets of the numbers, and the 8 of the format
        x += (-136.0 * (x[0] + x[4]) - 2056.0 * (x[1] + x[5]), -136.0 * (x[2] + x[6]) - 2056.0 * (x[3] + x[7]))
    y = _row_sum(w, left, right, x, FORM, ASM) * length
    if BIAS:
        y += tl.load(bias_ptr + n).to(tl.float32)
    if GATED:
        z = _row_sum(up, up_left, up_right, x, FORM, ASM) * length
        if BIAS:
            z += tl.load(bias_ptr + outputs + n).to(tl.float32)
        y = y / (1.0 + tl.exp(-y)) * z
    if RESIDUAL:
        y += tl.load(residual_ptr + n).to(tl.float32)
    tl.store(y_ptr + n, y.to(y_ptr.dtype.element_ty))


def _int4_numbers() -> str:
    """Places 1, 3, 5, 7 at bit 12, beneath the exponent of 2,048; 0, 2, 4, 6 at bit 16, beneath that of 128."""
    lines = [".reg .b32 t, a, b, low, high; mov.b32 low, 0x43000000; mov.b32 high, 0x45000000;"]
    moves = {"shl.b32 t, $8, 8;": (1, 2), "mov.b32 t, $8;": (3, 4), "shr.u32 t, $8, 8;": (5, 6)}
    for move, (odd, even) in (moves | {"prmt.b32 t, $8, $8, 0x1032;": (7, 0)}).items():
        lines.append(f"{move} lop3.b32 a, t, 0xF000, high, 0xEA; lop3.b32 b, t, 0xF0000, low, 0xEA;")
        lines.append(f"mov.b32 ${odd}, a; mov.b32 ${even}, b;")
    return f"{{ {' '.join(lines)} }}"


def _int8_numbers() -> str:
    """2^23 + 128 + q is exact, and so is the difference."""
    lines = [".reg .b32 t, a, magic; .reg .f32 f; mov.b32 magic, 0x4B000000; xor.b32 t, $4, 0x80808080;"]
    for place in range(4):
        lines.append(f"prmt.b32 a, t, magic, 0x754{place}; mov.b32 f, a; add.rn.f32 ${place}, f, 0fCB000080;")
    return f"{{ {' '.join(lines)} }}"


def _fp8_numbers() -> str:
    """Through fp16, which holds every e4m3 number."""
    lines = [".reg .b16 low, high, a, b, c, d; .reg .b32 p, q; mov.b32 {low, high}, $4;"]
    lines += ["cvt.rn.f16x2.e4m3x2 p, low; cvt.rn.f16x2.e4m3x2 q, high; mov.b32 {a, b}, p; mov.b32 {c, d}, q;"]
    lines += ["cvt.f32.f16 $0, a; cvt.f32.f16 $1, b; cvt.f32.f16 $2, c; cvt.f32.f16 $3, d;"]
    return f"{{ {' '.join(lines)} }}"


NUMBERS = {"int4": _int4_numbers(), "int8": _int8_numbers(), "fp8": _fp8_numbers()}


def tile(form: str, inputs: int) -> tuple[int, int]:
    """(outputs, warps) of a program, from a sweep on an H200: 32 registers of weights a thread, or 64 of long rows."""
    return (8, 2) if form == "int4" and inputs <= 4096 else (4, 4)


def linear_row(
    x: torch.Tensor,
    weight: QuantWeight,
    bias: torch.Tensor | None,
    norm: torch.Tensor | None,
    eps: float,
    gated: bool,
    residual: torch.Tensor | None,
) -> torch.Tensor:
    """``kernels.quant_linear.linear`` for one token, on the Triton path."""
    products, inputs = weight.shape
    outputs, runs = products // (2 if gated else 1), weight.words.shape[1]
    block, warps = tile(weight.form, inputs)
    block = math.gcd(block // 2 if gated else block, outputs)
    y = residual if residual is not None else torch.empty((1, outputs), dtype=x.dtype, device=x.device)
    _row_product_kernel[(outputs // block,)](
        x, x if norm is None else norm, weight.words.view(torch.int32), weight.scales, x if bias is None else bias,
        y, y, outputs, products, eps,
        K=inputs, FORM=weight.form, ASM="" if INTERPRET else NUMBERS[weight.form], RUNS=runs,
        RUNS_PAD=triton.next_power_of_2(runs), BLOCK_N=block, NORM=norm is not None, BIAS=bias is not None,
        GATED=gated, RESIDUAL=residual is not None, num_warps=warps, **dependent_launch(x),
    )  # fmt: skip
    return y
