"""8-bit keys and values: int8 or fp8 (e4m3), with one fp16 scale per token and KV head; value = stored * scale.

The scale is the head's largest magnitude over the largest stored number, so a token's head uses the whole range, and
what is stored depends on that token alone: batching, chunks and prefixes cannot change it. Of D values a scale costs
2 bytes: int8 with head_dim 128 is 130 bytes a head against 256 in bf16.

Both formats are exact in fp16, which is what attention multiplies: int8 has 8 bits, e4m3 has 4 and a smaller range of
exponents. ``unpack_pairs`` gets there without a conversion instruction per value.
"""

import torch

from kernels.backend import INTERPRET, jit, tl

LARGEST = {torch.int8: 127.0, torch.float8_e4m3fn: 448.0}  # the 8-bit formats, and their largest number
SMALLEST_SCALE = 2.0**-24  # of fp16: a head of zeros has it, and divides by no zero
# PTX that takes apart two pairs in one register: a pair of fp16 low bytes, a pair of fp16 high bytes
_PTX = {
    "int8": """{
        .reg .b32 bytes, offset;
        mov.b32 offset, 0x64806480;
        lop3.b32 bytes, $2, 0x00ff00ff, offset, 0x6a;  // (a & b) ^ c
        sub.rn.f16x2 $0, bytes, offset;
        shr.u32 bytes, $2, 8;
        lop3.b32 bytes, bytes, 0x00ff00ff, offset, 0x6a;
        sub.rn.f16x2 $1, bytes, offset;
    }""",
    "fp8": """{
        .reg .b32 bytes;
        .reg .b16 pair, unused;
        prmt.b32 bytes, $2, $2, 0x2020;
        mov.b32 {pair, unused}, bytes;
        cvt.rn.f16x2.e4m3x2 $0, pair;
        prmt.b32 bytes, $2, $2, 0x3131;
        mov.b32 {pair, unused}, bytes;
        cvt.rn.f16x2.e4m3x2 $1, pair;
    }""",
}


def quantise_reference(x: torch.Tensor, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Store ``x`` (..., D) as ``dtype``, one of ``LARGEST``.

    Returns:
        The stored numbers (..., D), rounded to nearest and saturated, and their scales, fp16 (...).
    """
    x, largest = x.float(), LARGEST[dtype]
    scale = (x.abs().amax(-1) / largest).clamp_min(SMALLEST_SCALE).half()
    stored = (x / scale.float().unsqueeze(-1)).clamp(-largest, largest)
    return (stored.round() if dtype == torch.int8 else stored).to(dtype), scale


def dequantise_reference(stored: torch.Tensor, scale: torch.Tensor | None) -> torch.Tensor:
    """The values in fp32; ``scale`` None: ``stored`` holds them as they are."""
    return stored.float() if scale is None else stored.float() * scale.float().unsqueeze(-1)


@jit
def store_quantised(at, scale_at, low, high, half, inside, real, LARGEST: tl.constexpr) -> None:
    """Quantise a head of several tokens, fp32 halves (TOKENS, HALF), and store it and its scales (TOKENS, 1).

    ``inside``, ``real``: where there is a value, and a token. Lanes outside hold 0.
    """
    top = tl.maximum(tl.max(tl.abs(low), axis=1, keep_dims=True), tl.max(tl.abs(high), axis=1, keep_dims=True))
    scale = tl.maximum(top / LARGEST, 2.0**-24).to(tl.float16)
    tl.store(scale_at, scale, mask=real)
    inverse = 1.0 / scale.to(tl.float32)
    tl.store(at, _rounded(low * inverse, at.dtype.element_ty, LARGEST), mask=inside)
    tl.store(at + half, _rounded(high * inverse, at.dtype.element_ty, LARGEST), mask=inside)


@jit
def _rounded(x, DTYPE: tl.constexpr, LARGEST: tl.constexpr):
    """Saturated, to nearest, ties to even. Rounded before the cast, whose own rounding depends on where it runs."""
    x = tl.minimum(tl.maximum(x, -LARGEST), LARGEST)
    if DTYPE == tl.int8:  # noqa: SIM300
        large = 12582912.0  # 1.5 * 2^23: beside it fp32 has whole numbers only
    else:
        power = (x.to(tl.int32, bitcast=True) & 0x7F800000).to(tl.float32, bitcast=True)
        large = tl.maximum(power, 2.0**-6) * 1572864.0  # 1.5 * 2^20 powers: beside it fp32 has eighths of the power
    return ((x + large) - large).to(DTYPE)


@jit
def unpack_pairs(x, FORMAT: tl.constexpr, PTX: tl.constexpr) -> "tl.tensor":
    """Take int16 pairs of 8-bit numbers apart: (low bytes, high bytes), fp16, exact.

    int8: a byte with its sign flipped, put into the low bits of 1024, makes 1024 + 128 + number. e4m3: sign and seven
    bits, put where fp16 has its sign and the end of its exponent, make number / 256. ``PTX``: the same in half of the
    instructions that the compiler would find.
    """
    if PTX != "":
        return tl.inline_asm_elementwise(PTX, "=&r,=&r,r", [x], dtype=(tl.float16, tl.float16), is_pure=True, pack=2)
    if FORMAT == "int8":
        low, high = (x & 0xFF) ^ 0x6480, ((x >> 8) & 0xFF) ^ 0x6480
        return low.to(tl.float16, bitcast=True) - 1152.0, high.to(tl.float16, bitcast=True) - 1152.0
    low, high = ((x << 8) & -32768) | ((x << 7) & 0x3F80), (x & -32768) | ((x >> 1) & 0x3F80)
    return low.to(tl.float16, bitcast=True) * 256.0, high.to(tl.float16, bitcast=True) * 256.0


def unpack_ptx(kv_format: str) -> str:
    """What ``unpack_pairs`` runs on a GPU; ``""`` where it must make do without (plain caches, the interpreter)."""
    return "" if INTERPRET else _PTX.get(kv_format, "")


def as_words(x: torch.Tensor) -> torch.Tensor:
    """Two neighbours in one number: an 8-bit cache as int16 (..., D/2), fp16 scales as int32 (..., block_size/2)."""
    return x.view(torch.int32 if x.dtype == torch.float16 else torch.int16)


def format_of(cache: torch.Tensor) -> str:
    """``"int8"``, ``"fp8"``, or ``"plain"`` for a cache that stores the values themselves."""
    return {torch.int8: "int8", torch.float8_e4m3fn: "fp8"}.get(cache.dtype, "plain")


def check_scales(
    k_cache: torch.Tensor, v_cache: torch.Tensor, k_scale: torch.Tensor | None, v_scale: torch.Tensor | None
) -> None:
    """Refuse an 8-bit cache without its scales, scales beside another cache, and scales of another shape.

    Raises:
        ValueError: naming the tensor and what it must be.
    """
    for name, cache, scale in (("k_scale", k_cache, k_scale), ("v_scale", v_cache, v_scale)):
        if cache.dtype not in LARGEST:
            if scale is not None:
                raise ValueError(f"{name}: only an int8 or fp8 cache has scales; this one is {cache.dtype}")
        elif scale is None or (scale.dtype, scale.shape) != (torch.float16, cache.shape[:3]):
            raise ValueError(f"{name}: float16 of shape {tuple(cache.shape[:3])} beside a cache of {cache.dtype}")
        elif not scale.is_contiguous():
            raise ValueError(f"{name}: must be contiguous; got strides {scale.stride()}")
