"""Packed weights to numbers: in registers, one or two instructions a weight, exactly. See ``kernels.quantise``.

A 4-bit field that lands in the low mantissa of a number with a suitable exponent adds itself to it: 0x4300 | q is
128 + q in bf16, 0x6400 | q is 1024 + q in fp16. One LOP3 (mask and OR) does so for the two words of a register, one
FMA takes the offset away. int8 in bf16, whose mantissa has 7 bits: the same with the low 7 bits, less 128 + the sign
bit's own 128. e4m3: exponent and mantissa move into place and a product sets the exponent right, subnormals too.

The PTX stands here as text by format and dtype; ``_field`` says the same in plain operations and serves fp32, the
interpreter, and the tests that compare both.
"""

import torch

from kernels.backend import INTERPRET, jit, tl


@jit
def _field(words, ROUND: tl.constexpr, FORM: tl.constexpr):
    """The weights of one round before their scale, fp32."""
    if FORM == "int4":
        return ((words >> (4 * ROUND)) & 15).to(tl.float32) - 8.0
    code = (words >> (8 * ROUND)).to(tl.int8)
    if FORM == "fp8":
        code = code.to(tl.float8e4nv, bitcast=True)
    return code.to(tl.float32)


@jit
def fields(words, like, FORM: tl.constexpr, ASM: tl.constexpr) -> "tuple[tl.tensor, ...]":
    """The weights of each round of ``words`` (int16) before their scale, in the dtype behind the pointer ``like``."""
    if FORM == "int4":
        if ASM == "":
            a, b, c, d = _field(words, 0, FORM), _field(words, 1, FORM), _field(words, 2, FORM), _field(words, 3, FORM)
            kind = like.dtype.element_ty
            return a.to(kind), b.to(kind), c.to(kind), d.to(kind)
        else:
            return tl.inline_asm_elementwise(
                ASM, "=&r,=&r,=&r,=&r,r", [words], is_pure=True, pack=2,
                dtype=(like.dtype.element_ty, like.dtype.element_ty, like.dtype.element_ty, like.dtype.element_ty),
            )  # fmt: skip
    else:
        if ASM == "":
            a, b = _field(words, 0, FORM), _field(words, 1, FORM)
            return a.to(like.dtype.element_ty), b.to(like.dtype.element_ty)
        else:
            return tl.inline_asm_elementwise(
                ASM, "=&r,=&r,r", [words], is_pure=True, pack=2,
                dtype=(like.dtype.element_ty, like.dtype.element_ty),
            )  # fmt: skip


def fields_asm(form: str, dtype: torch.dtype) -> str:
    """The PTX for ``fields``; empty where plain operations serve."""
    return "" if INTERPRET or dtype == torch.float32 else FIELDS[form, dtype]


def _twice(value: int) -> str:
    """A 16-bit constant for both words of a register."""
    return f"0x{value * 0x10001:08X}"


def _int4_fields(kind: str, magic: int, one: int, offset: int) -> str:
    lines = [f".reg .b32 t, one, off; mov.b32 one, {_twice(one)}; mov.b32 off, {_twice(offset)};"]
    for place in range(4):
        lines.append(f"shr.u32 t, $4, {4 * place}; lop3.b32 t, t, {_twice(15)}, {_twice(magic)}, 0xEA;")
        lines.append(f"fma.rn.{kind} ${place}, t, one, off;")
    return f"{{ {' '.join(lines)} }}"


def _int8_bf16_fields() -> str:
    lines = [f".reg .b32 t, low, sign, minus; mov.b32 minus, {_twice(0xBF80)};"]
    for place in range(2):
        lines.append(f"shr.u32 t, $2, {8 * place}; lop3.b32 low, t, {_twice(0x7F)}, {_twice(0x4300)}, 0xEA;")
        lines.append(
            f"lop3.b32 sign, t, {_twice(0x80)}, {_twice(0x4300)}, 0xEA; fma.rn.bf16x2 ${place}, sign, minus, low;"
        )
    return f"{{ {' '.join(lines)} }}"


def _int8_fp16_fields() -> str:
    lines = [f".reg .b32 t, one, off; mov.b32 one, {_twice(0x3C00)}; mov.b32 off, {_twice(0xE480)};"]
    for place in range(2):
        lines.append(f"shr.u32 t, $2, {8 * place}; lop3.b32 t, t, {_twice(0xFF)}, {_twice(0x6480)}, 0x6A;")
        lines.append(f"fma.rn.f16x2 ${place}, t, one, off;")
    return f"{{ {' '.join(lines)} }}"


def _fp8_fields(kind: str, factor: int, left: int) -> str:
    lines = [f".reg .b32 t, body, factor, zero; mov.b32 factor, {_twice(factor)}; mov.b32 zero, {_twice(0x8000)};"]
    for place in range(2):
        lines.append(f"shl.b32 t, $2, {8 - 8 * place}; shr.u32 body, t, {8 - left};")
        lines.append(f"and.b32 body, body, {_twice(0x7F << left)}; lop3.b32 t, t, {_twice(0x8000)}, body, 0xEA;")
        lines.append(f"fma.rn.{kind} ${place}, t, factor, zero;")
    return f"{{ {' '.join(lines)} }}"


FIELDS = {
    ("int4", torch.bfloat16): _int4_fields("bf16x2", 0x4300, 0x3F80, 0xC308),  # 128 + q, 1, -136
    ("int4", torch.float16): _int4_fields("f16x2", 0x6400, 0x3C00, 0xE408),  # 1024 + q, 1, -1032
    ("int8", torch.bfloat16): _int8_bf16_fields(),
    ("int8", torch.float16): _int8_fp16_fields(),
    ("fp8", torch.bfloat16): _fp8_fields("bf16x2", 0x7B80, 4),  # 2^120
    ("fp8", torch.float16): _fp8_fields("f16x2", 0x5C00, 7),  # 2^8
}
