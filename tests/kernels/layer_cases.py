"""RMSNorm, SiLU-mul, RoPE with the cache write, and staging, run by every backend (fixture ``target``)."""

import pytest
import torch

from kernels.rmsnorm import add_rmsnorm, rmsnorm
from kernels.rope_kv import rope_write_kv
from kernels.silu_mul import silu_mul
from kernels.staging import fetch_seats, stage
from tests.kernels.inputs import close, poisoned

DTYPES = (torch.float32, torch.float16, torch.bfloat16)
EPS = 1e-6


def randn(target, *shape, dtype=torch.float32):
    return torch.randn(*shape).to(target.device, dtype)


def unit(x):
    """Rows divided by their root mean square, in fp64."""
    x = x.double()
    return x / (x.pow(2).mean(-1, keepdim=True) + EPS).sqrt()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", ((1, 64), (5, 100), (3, 257), (0, 64)), ids=str)
def test_rmsnorm(target, shape, dtype):
    """Odd widths, one row and no row."""
    x, weight = randn(target, *shape, dtype=dtype), randn(target, shape[1], dtype=dtype)
    with poisoned():
        y = rmsnorm(x, weight, EPS, backend=target.backend)
    close(y, unit(x) * weight.double())


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_C_10_add_rmsnorm_updates_the_residual_once(target, dtype):
    """In place, and the same on a second copy of the input: no launch may add twice (C-10)."""
    x, before, weight = (randn(target, *s, dtype=dtype) for s in ((5, 100), (5, 100), (100,)))
    for _ in range(2):
        residual = before.clone()
        with poisoned():
            y = add_rmsnorm(x, residual, weight, EPS, backend=target.backend)
        close(residual, x.double() + before.double())
        close(y, unit(residual) * weight.double())


def test_many_short_rows_share_a_program(target):
    """Above 1,024 rows a program takes several: the last one is partly empty."""
    x, weight = randn(target, 1027, 16), randn(target, 16)
    close(rmsnorm(x, weight, EPS, backend=target.backend), unit(x) * weight.double())


@pytest.mark.parametrize("width", (64, 100))
def test_C_03_rmsnorm_of_strided_rows(target, width):
    """A row stride is respected; a strided last dimension is right or refused, never silently wrong (C-03)."""
    base, weight = randn(target, 6, 2 * width, dtype=torch.float16), randn(target, width, dtype=torch.float16)
    halves = base[:, width:]
    close(rmsnorm(halves, weight, EPS, backend=target.backend), unit(halves) * weight.double())
    for x in (base[:, ::2], randn(target, width, 6, dtype=torch.float16).t()):
        if target.backend == "triton":
            with pytest.raises(ValueError, match=r"x: .*contiguous"):
                rmsnorm(x, weight, EPS, backend=target.backend)
        else:
            close(rmsnorm(x, weight, EPS, backend=target.backend), unit(x) * weight.double())


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", ((1, 8), (3, 100), (2, 1030), (0, 8)), ids=str)
def test_silu_mul(target, shape, dtype):
    """Odd widths, several tiles, and rows that are a view of a wider buffer."""
    wide = randn(target, shape[0], 2 * shape[1] + 3, dtype=dtype)
    gate, up = wide[:, : shape[1]].double(), wide[:, shape[1] : 2 * shape[1]].double()
    with poisoned():
        y = silu_mul(wide[:, : 2 * shape[1]], backend=target.backend)
    close(y, gate * gate.sigmoid() * up)


def rotated(x, positions, cos_sin):
    """The rotation as complex numbers: (T, heads, D) fp64 from pairs (i, i + D/2)."""
    low, high = x.double().chunk(2, -1)
    cos, sin = cos_sin.double()[positions.long()].unsqueeze(1).chunk(2, -1)
    turned = torch.complex(low, high) * torch.complex(cos, sin)
    return torch.cat((turned.real, turned.imag), -1)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("heads", "head_dim", "norm"), (((4, 2), 64, False), ((3, 1), 80, True), ((5, 5), 64, True)))
def test_C_10_rope_write_kv(target, dtype, heads, head_dim, norm):
    """q back, k and v in their slots, nothing anywhere else; negative slots write nothing; input untouched (C-10)."""
    (q_heads, kv_heads), block_size, tokens = heads, 8, 5
    qkv = randn(target, tokens, (q_heads + 2 * kv_heads) * head_dim + 8, dtype=dtype)[:, :-8]  # a view: any row stride
    positions = torch.tensor([3, 0, 40, 41, 0], device=target.device, dtype=torch.int32)
    slots = torch.tensor([9, -1, 38, 16, -1], device=target.device, dtype=torch.int32)
    angles = torch.rand(64, head_dim // 2, device=target.device) * 6.3
    cos_sin = torch.cat((angles.cos(), angles.sin()), -1)
    weights = [randn(target, head_dim, dtype=dtype) if norm else None for _ in range(2)]
    caches = [torch.full((5, kv_heads, block_size, head_dim), 7.0, device=target.device, dtype=dtype) for _ in "kv"]
    before = qkv.clone()
    with poisoned():
        got = rope_write_kv(
            qkv, positions, slots, cos_sin, *caches, *weights, EPS,
            num_q_heads=q_heads, num_kv_heads=kv_heads, backend=target.backend,
        )  # fmt: skip
    q, k, v = qkv.unflatten(-1, (-1, head_dim)).split((q_heads, kv_heads, kv_heads), 1)
    if norm:
        q, k = unit(q) * weights[0].double(), unit(k) * weights[1].double()
    expected = [torch.full_like(cache, 7.0, dtype=torch.float64) for cache in caches]
    for token, slot in enumerate(slots.tolist()):
        if slot >= 0:
            expected[0][slot // block_size, :, slot % block_size] = rotated(k, positions, cos_sin)[token]
            expected[1][slot // block_size, :, slot % block_size] = v[token].double()
    close(got, rotated(q, positions, cos_sin))
    close(caches[0], expected[0])
    assert torch.equal(caches[1].double(), expected[1])
    assert torch.equal(qkv, before)


def test_stage(target):
    """Two decode rows, a padding entry, a chunk that crosses a block, and three tokens of nobody."""
    rows, starts = torch.tensor([2, 0, -1, 1]).int(), torch.tensor([5, 0, 0, 6]).int()
    query_starts = torch.tensor([0, 1, 4, 5, 8]).int()
    tables = torch.tensor([[11, 12], [21, 22], [31, 32]]).int()
    tokens = torch.arange(30).view(3, 10).int()
    arguments = (x.to(target.device) for x in (rows, starts, query_starts, tables, tokens))
    with poisoned():
        staged = stage(*arguments, block_size=8, num_tokens=11, backend=target.backend)
    assert staged.positions.tolist() == [5, 0, 1, 2, 0, 6, 7, 8, 0, 0, 0]
    assert staged.slots.tolist() == [253, 88, 89, 90, -1, 174, 175, 176, -1, -1, -1]
    assert staged.seats.tolist() == [2, 0, 0, 0, -1, 1, 1, 1, -1, -1, -1]
    assert staged.token_ids.tolist() == [25, 0, 1, 2, 0, 16, 17, 18, 0, 0, 0]
    assert staged.context_lens.tolist() == [6, 3, 0, 9]
    assert staged.last.tolist() == [0, 3, 4, 7]


def test_stage_skips_entries_without_tokens(target):
    """Padding entries of zero tokens, in the middle and at the end, belong to no token."""
    rows, starts = torch.tensor([-1, 1, -1, 0, -1]).int(), torch.tensor([0, 3, 0, 0, 0]).int()
    query_starts = torch.tensor([0, 0, 2, 2, 3, 3]).int()
    tables, tokens = torch.tensor([[4], [6]]).int(), torch.zeros(2, 5).int()
    arguments = (x.to(target.device) for x in (rows, starts, query_starts, tables, tokens))
    staged = stage(*arguments, block_size=16, num_tokens=4, backend=target.backend)
    assert staged.slots.tolist() == [99, 100, 64, -1]
    assert staged.context_lens.tolist() == [0, 5, 0, 1, 0]


@pytest.mark.parametrize("width", (1, 3, 300))
def test_fetch_seats(target, width):
    """Seats in any order, one twice, and padding in the middle; a table wider than one program."""
    rows = torch.tensor([2, -1, 0, 2]).int().to(target.device)
    tables = torch.arange(900).view(3, 300).int().to(target.device)
    temperature, seeds = torch.tensor([0.5, 9.0, 0.25]), torch.tensor([2**40, 5, -3])
    with poisoned():
        arguments = rows, tables, temperature.to(target.device), seeds.to(target.device), width
        found = fetch_seats(*arguments, backend=target.backend)
    third, first = list(range(600, 600 + width)), list(range(width))
    assert found.tables.tolist() == [third, [0] * width, first, third]
    assert found.temperature.tolist() == [0.25, 0, 0.5, 0.25]
    assert found.seeds.tolist() == [-3, 0, 2**40, -3]
