"""8-bit keys and values, run by every backend: imported by the test modules that provide the fixture ``target``."""

from dataclasses import replace

import pytest
import torch

from kernels.attention import paged_attention
from kernels.kv_format import LARGEST, dequantise_reference, quantise_reference
from kernels.rope_kv import rope_write_kv
from tests.kernels.attention_cases import attend
from tests.kernels.inputs import close, in_8_bits, paged_batch, poisoned
from tests.kernels.layer_cases import EPS, rotated, unit

FORMATS = tuple(LARGEST)
STEP = {torch.int8: 1.0, torch.float8_e4m3fn: 32.0}  # distance of neighbours near the largest number


@pytest.mark.parametrize("kv_dtype", FORMATS, ids=str)
@pytest.mark.parametrize("dtype", (torch.float32, torch.float16, torch.bfloat16), ids=str)
@pytest.mark.parametrize(("heads", "head_dim", "norm"), (((4, 2), 64, False), ((3, 1), 80, True)))
def test_C_12_rope_quantises_what_it_writes(target, kv_dtype, dtype, heads, head_dim, norm):
    """Stored numbers are the nearest ones, beside the scale of their own token and head; a token of zeros divides by
    no zero; huge and tiny tokens keep their own range; no other slot or scale changes."""
    (q_heads, kv_heads), block_size, tokens = heads, 8, 6
    qkv = torch.randn(tokens, (q_heads + 2 * kv_heads) * head_dim).to(target.device, dtype)
    qkv[1], qkv[2], qkv[3] = 0, qkv[2] * 300, qkv[3] / 300
    positions = torch.tensor([3, 0, 40, 41, 7, 0], device=target.device, dtype=torch.int32)
    slots = torch.tensor([9, 20, 38, 16, -1, -1], device=target.device, dtype=torch.int32)
    angles = torch.rand(64, head_dim // 2, device=target.device) * 6.3
    cos_sin = torch.cat((angles.cos(), angles.sin()), -1)
    weights = [torch.randn(head_dim).to(target.device, dtype) if norm else None for _ in range(2)]
    caches = [torch.zeros(5, kv_heads, block_size, head_dim, device=target.device).to(kv_dtype) for _ in "kv"]
    scales = [torch.full((5, kv_heads, block_size), 7.0, device=target.device, dtype=torch.float16) for _ in "kv"]
    with poisoned():
        got = rope_write_kv(
            qkv, positions, slots, cos_sin, *caches, *weights, EPS, num_q_heads=q_heads, num_kv_heads=kv_heads,
            backend=target.backend, k_scale=scales[0], v_scale=scales[1],
        )  # fmt: skip
    q, k, v = qkv.unflatten(-1, (-1, head_dim)).split((q_heads, kv_heads, kv_heads), 1)
    if norm:
        q, k = unit(q) * weights[0].double(), unit(k) * weights[1].double()
    close(got, rotated(q, positions, cos_sin))
    written = slots[slots >= 0].long()
    for cache, scale, x in ((caches[0], scales[0], rotated(k, positions, cos_sin)), (caches[1], scales[1], v.double())):
        x, block, offset = x[slots >= 0], written // block_size, written % block_size
        stored, found = cache[block, :, offset].double(), scale[block, :, offset].double()
        torch.testing.assert_close(
            found, (x.abs().amax(-1) / LARGEST[kv_dtype]).clamp_min(2**-24), atol=6e-8, rtol=2e-3
        )
        assert ((stored * found[..., None] - x).abs() <= 0.51 * STEP[kv_dtype] * found[..., None]).all()
        untouched = torch.ones_like(scale, dtype=torch.bool)
        untouched[block, :, offset] = False
        assert (scale[untouched] == 7).all() and (cache[untouched].float() == 0).all()


@pytest.mark.parametrize("kv_dtype", FORMATS, ids=str)
@pytest.mark.parametrize("dtype", (torch.float32, torch.float16, torch.bfloat16), ids=str)
def test_mixed_step_in_8_bits(target, kv_dtype, dtype):
    """A prompt, decode rows, a chunk, padding and left-over tokens against the dense formula on the dequantised
    values; scales outside the rows are NaN, so nothing else is read."""
    rows = [(9, 9), (1, 21), (6, 30), (1, 0), (3, 0), (1, 1)]
    batch = in_8_bits(paged_batch(rows, target, dtype=dtype, tail=3), kv_dtype)
    close(attend(batch, target), batch.expected(), dtype)


@pytest.mark.parametrize("kv_dtype", FORMATS, ids=str)
@pytest.mark.parametrize(("heads", "head_dim", "block_size"), (((7, 1), 64, 8), ((6, 2), 80, 24), ((5, 5), 128, 16)))
def test_decode_in_8_bits(target, kv_dtype, heads, head_dim, block_size):
    """Two values share 16 bits: odd widths, groups and block sizes must not mix them up, nor may shares."""
    rows = [(1, 1), (1, 17), (1, 40), (1, 65), (1, 0)]
    batch = paged_batch(rows, target, heads=heads, head_dim=head_dim, block_size=block_size, dtype=torch.float16)
    batch = in_8_bits(batch, kv_dtype)
    for splits in (1, 3):
        close(attend(batch, target, splits=splits), batch.expected())


@pytest.mark.parametrize("kv_dtype", FORMATS, ids=str)
@pytest.mark.parametrize("size", (2**-9, 600.0))
def test_values_of_any_size_keep_their_precision(target, kv_dtype, size):
    """Weights times the scale of a value once fell below or above what fp16 can hold; queries of any size too."""
    batch = paged_batch([(1, 33), (1, 70)], target, heads=(2, 1), dtype=torch.bfloat16)
    batch.q.mul_(size)
    for cache in (batch.k_cache, batch.v_cache):
        cache.mul_(1 / size if cache is batch.k_cache else size)
    batch.dense = [(k / size, v * size) for k, v in batch.dense]
    batch = in_8_bits(batch, kv_dtype)
    close(attend(batch, target) / size, batch.expected() / size, torch.bfloat16)


@pytest.mark.parametrize("kv_dtype", FORMATS, ids=str)
def test_quantised_numbers_are_the_nearest(target, kv_dtype):
    """The specification itself: half a step at most, the largest magnitude at the end of the range, zeros stay."""
    x = torch.randn(50, 3, 64, device=target.device) * torch.logspace(-3, 3, 50, device=target.device)[:, None, None]
    x[7] = 0
    stored, scale = quantise_reference(x, kv_dtype)
    assert stored.dtype == kv_dtype and scale.dtype == torch.float16 and scale.shape == (50, 3)
    assert (stored[7].float() == 0).all() and (scale > 0).all()
    error = (dequantise_reference(stored, scale) - x).abs() / scale.float()[..., None]
    assert (error <= 0.51 * STEP[kv_dtype]).all()
    assert (stored.float().abs().amax(-1)[torch.arange(50) != 7] >= LARGEST[kv_dtype] - STEP[kv_dtype]).all()


@pytest.mark.parametrize("kv_dtype", FORMATS, ids=str)
def test_C_12_zeros_stay_zeros(target, kv_dtype):
    """A head, a token and a block of nothing but zeros once had the scale 0, and 0/0 behind it."""
    values = torch.randn(4, 3, 8, 64, device=target.device)  # (blocks, heads, block_size, D)
    values[0, 1], values[1, :, 5], values[3] = 0, 0, 0
    stored, scale = quantise_reference(values, kv_dtype)
    assert scale.isfinite().all() and (scale > 0).all()
    found = dequantise_reference(stored, scale)
    assert found.isfinite().all() and (found[values == 0] == 0).all()


@pytest.mark.parametrize("kv_dtype", (torch.bfloat16, torch.int8), ids=str)
def test_C_01_offsets_beyond_32_bits(target, kv_dtype):
    """An index times a stride once wrapped at 2^31 elements: the first and the last blocks of a larger pool give the
    same bits, written and read, and their neighbours keep theirs. On a CPU nobody touches most of that memory."""
    (q_heads, kv_heads), head_dim, block_size, tokens = (2, 1), 128, 16, 20
    per_element = 2 if kv_dtype == torch.int8 else 1  # attention counts an 8-bit cache in pairs
    blocks = per_element * 2**31 // (kv_heads * block_size * head_dim) + 16
    shape = (blocks, kv_heads, block_size, head_dim)
    caches = [torch.empty(shape, device=target.device, dtype=kv_dtype) for _ in "kv"]
    scales = dict.fromkeys(("k_scale", "v_scale"))
    if kv_dtype == torch.int8:
        scales = {name: torch.empty(shape[:3], device=target.device, dtype=torch.float16) for name in scales}
    neighbours = [0, 3, blocks - 3]
    for cache in caches:
        cache[neighbours] = 7
    qkv = torch.randn(tokens, (q_heads + 2 * kv_heads) * head_dim).to(target.device, torch.bfloat16)
    cos_sin = torch.randn(64, head_dim).to(target.device)
    positions = torch.arange(tokens, device=target.device, dtype=torch.int32)
    starts, lens = (torch.tensor(x, dtype=torch.int32, device=target.device) for x in ([0, tokens], [tokens]))
    answers = []
    for ids in ([1, 2], [blocks - 2, blocks - 1]):
        table = torch.tensor([ids], dtype=torch.int32, device=target.device)
        slots = table[0].repeat_interleave(block_size)[:tokens] * block_size + positions % block_size
        q = rope_write_kv(
            qkv, positions, slots, cos_sin, *caches,
            num_q_heads=q_heads, num_kv_heads=kv_heads, backend=target.backend, **scales,
        )  # fmt: skip
        pool = *caches, table
        made = [
            paged_attention(part, *pool, starts.clamp_max(len(part)), lens, 0.1, len(part), target.backend, **scales)
            for part in (q, q[-1:])
        ]  # as a prompt, then its last token as a decode
        answers.append(torch.cat(made))
    assert answers[0].isfinite().all() and answers[0].any() and torch.equal(*answers)
    assert all((cache[neighbours] == 7).all() for cache in caches)


def test_a_cache_and_its_scales_belong_together(target):
    """An 8-bit cache without scales, scales beside a plain one and scales of another shape would give wrong numbers
    in silence; each is refused by the name of the field."""
    plain = paged_batch([(1, 5)], target)
    batch = in_8_bits(plain, torch.int8)
    wrong = {"k_scale": batch.k_scale[:-1], "v_scale": batch.v_scale.float()}
    for name, scale in [("k_scale", None), ("v_scale", None), *wrong.items()]:
        with pytest.raises(ValueError, match=f"{name}: float16 of shape"):
            attend(replace(batch, **{name: scale}), target)
    with pytest.raises(ValueError, match="k_scale: only an int8 or fp8 cache"):
        attend(replace(plain, k_scale=batch.k_scale), target)
