"""The compiled kernels on a GPU: every case of the other backends, then full shapes against fp32 formulas."""

import dataclasses

import pytest
import torch

from kernels import prefill, quant_linear
from kernels.attention import paged_attention
from kernels.quantise import FORMATS as WEIGHT_FORMATS
from kernels.quantise import quantise
from kernels.rmsnorm import add_rmsnorm, rmsnorm
from kernels.rope_kv import rope_write_kv
from kernels.sampling import sample, sample_reference
from kernels.shares import arrival_counters
from kernels.silu_mul import silu_mul
from kernels.skinny import linear
from kernels.staging import stage
from tests.kernels.advance_cases import *  # noqa: F403
from tests.kernels.attention_cases import *  # noqa: F403
from tests.kernels.attention_cases import attend
from tests.kernels.inputs import Target, close, in_8_bits, paged_batch, poisoned
from tests.kernels.kv_format_cases import *  # noqa: F403
from tests.kernels.kv_format_cases import FORMATS
from tests.kernels.layer_cases import *  # noqa: F403
from tests.kernels.layer_cases import EPS, unit
from tests.kernels.linear_cases import *  # noqa: F403
from tests.kernels.linear_cases import agrees, formula, layer
from tests.kernels.quant_cases import *  # noqa: F403
from tests.kernels.sampling_cases import *  # noqa: F403

pytestmark = pytest.mark.gpu
GPU = Target("cuda", "triton")
BF16 = torch.bfloat16


@pytest.fixture
def target():
    return GPU


def random(*shape, dtype=BF16):
    return torch.randn(*shape, device="cuda", dtype=dtype)


def contexts(count, longest, seed=0):
    """Ragged lengths, the longest and 1 among them."""
    draw = torch.Generator().manual_seed(seed)
    return [longest, 1, *torch.randint(1, longest, (count - 2,), generator=draw).tolist()]


@pytest.mark.parametrize("dtype", (torch.float16, BF16), ids=str)
@pytest.mark.parametrize(
    ("count", "longest", "heads", "head_dim"),
    (
        (64, 2048, (32, 8), 128), (256, 1024, (16, 8), 128), (32, 700, (14, 2), 64),
        (8, 3000, (8, 1), 256), (9, 999, (6, 2), 80),
    ),
    ids=str,
)  # fmt: skip
def test_decode_full_shapes(count, longest, heads, head_dim, dtype):
    """Ragged decode batches with the heads of real models."""
    rows = [(1, context) for context in contexts(count, longest)]
    batch = paged_batch(rows, GPU, heads=heads, head_dim=head_dim, dtype=dtype)
    close(attend(batch, GPU), batch.expected())


@pytest.mark.parametrize("kv_dtype", FORMATS, ids=str)
@pytest.mark.parametrize(
    ("count", "longest", "heads", "head_dim"),
    ((64, 2048, (32, 8), 128), (256, 1024, (16, 8), 128), (5, 3000, (8, 1), 256), (9, 999, (6, 2), 80)),
    ids=str,
)
def test_decode_full_shapes_in_8_bits(count, longest, heads, head_dim, kv_dtype):
    """The same from 8-bit caches: the compiled unpacking is PTX of our own, which the interpreter never sees."""
    rows = [(1, context) for context in contexts(count, longest)]
    batch = in_8_bits(paged_batch(rows, GPU, heads=heads, head_dim=head_dim, dtype=BF16), kv_dtype)
    close(attend(batch, GPU), batch.expected())


@pytest.mark.parametrize("kv_dtype", FORMATS, ids=str)
@pytest.mark.parametrize("head_dim", (64, 128))
def test_prefill_and_mixed_in_8_bits(head_dim, kv_dtype):
    """Prompts, a late chunk and decode rows over one 8-bit cache."""
    rows = [(1024, 1024), (512, 3000), (1, 1500), (17, 17), (1, 0), (129, 1153)]
    batch = paged_batch(rows, GPU, heads=(16, 4), head_dim=head_dim, dtype=BF16, tail=5)
    batch = in_8_bits(batch, kv_dtype)
    close(attend(batch, GPU), batch.expected())


@pytest.mark.parametrize("kv_dtype", (None, *FORMATS), ids=str)
def test_one_long_row(kv_dtype):
    """32k of context in one row: the shares fill the device and merge."""
    batch = paged_batch([(1, 32768)], GPU, heads=(32, 8), head_dim=128, dtype=BF16)
    if kv_dtype:
        batch = in_8_bits(batch, kv_dtype)
    close(attend(batch, GPU), batch.expected())


def test_shares_merge_the_same_way_in_every_replay():
    """Which program arrives last is chance: the merge must not depend on it, and its counters must end at zero."""
    rows = [(1, context) for context in contexts(12, 3000)]
    batch = paged_batch(rows, GPU, heads=(16, 8), head_dim=128, dtype=BF16)
    first = attend(batch, GPU, splits=16)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = [attend(batch, GPU, splits=splits) for splits in (16, 3, 16)][-1]
    for _ in range(200):
        out.fill_(torch.nan)
        graph.replay()
        assert torch.equal(out, first)
    assert not arrival_counters(batch.q.device).any()


@pytest.mark.parametrize("dtype", (torch.float16, BF16), ids=str)
@pytest.mark.parametrize("head_dim", (64, 96, 128, 256))
def test_prefill_and_mixed_full_shapes(head_dim, dtype):
    """Whole prompts, a chunk far behind its beginning, and decode rows beside them."""
    rows = [(2048, 2048), (512, 3000), (1, 1500), (17, 17), (1, 0), (129, 1153)]
    batch = paged_batch(rows, GPU, heads=(16, 4), head_dim=head_dim, dtype=dtype, tail=5)
    close(attend(batch, GPU), batch.expected())


PROMPTS = [(2048, 2048), (0, 0), (700, 5000), (1, 300), (33, 33), (1, 0), (128, 129), (4100, 4100)]


@pytest.mark.parametrize(
    ("heads", "head_dim", "block_size", "dtype"),
    (
        ((32, 8), 128, 16, BF16), ((16, 8), 128, 64, torch.float16), ((14, 2), 64, 8, BF16), ((5, 5), 80, 24, BF16),
        ((16, 1), 96, 256, BF16), ((8, 2), 256, 16, torch.float16),
    ),
    ids=str,
)  # fmt: skip
def test_prefill_of_this_gpu_and_the_portable_kernel(heads, head_dim, block_size, dtype, monkeypatch):
    """Prompts of many tiles, chunks, padding and left-over tokens: both kernels of ``kernels.prefill`` against the
    dense formula (on other GPUs than Hopper both runs are the portable one)."""
    batch = paged_batch(PROMPTS, GPU, heads=heads, head_dim=head_dim, block_size=block_size, dtype=dtype, tail=70)
    expected = batch.expected()
    close(attend(batch, GPU), expected)
    monkeypatch.setattr(prefill, "prefill_hopper", None)
    close(attend(batch, GPU), expected)


def test_a_hopper_gpu_gets_its_kernel():
    """Guards a condition that turns the fast kernel away: nothing but the time would show it."""
    if torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("only Hopper GPUs have a kernel of their own")
    batch = paged_batch([(40, 40)], GPU, heads=(8, 2), head_dim=128, dtype=BF16)
    assert prefill.prefill_hopper.serves(batch.q, batch.k_cache, batch.v_cache)


@pytest.mark.parametrize("hopper", (True, False))
def test_scattered_and_consecutive_blocks_give_the_same_bits(hopper, monkeypatch):
    """Where a block lies in the pool is none of the answer's business."""
    if not hopper:
        monkeypatch.setattr(prefill, "prefill_hopper", None)
    batch = paged_batch([(1000, 1000)], GPU, heads=(8, 2), head_dim=128, dtype=BF16)
    used = batch.block_tables[0, :63].long()
    caches = [torch.cat((cache[:1], cache[used])) for cache in (batch.k_cache, batch.v_cache)]
    table = torch.arange(1, 64, device="cuda", dtype=torch.int32)[None]
    moved = dataclasses.replace(batch, k_cache=caches[0], v_cache=caches[1], block_tables=table)
    assert torch.equal(attend(batch, GPU), attend(moved, GPU))


def test_a_graph_of_prefill_replays_other_lengths():
    """The grid of a mixed step depends on shapes only: captured on one split into rows, it serves another."""
    batches = [
        paged_batch(rows, GPU, heads=(8, 2), head_dim=128, dtype=BF16, tail=tail, seed=1)
        for rows, tail in (([(300, 300), (0, 0), (1, 900)], 211), ([(1, 1), (400, 800), (50, 300)], 61))
    ]
    names = ("q", "k_cache", "v_cache", "block_tables", "query_starts", "context_lens")
    first, second = ([getattr(batch, name) for name in names] for batch in batches)
    blocks, width = (max(first[place].shape[axis], second[place].shape[axis]) for place, axis in ((1, 0), (3, 1)))
    for tensors in (first, second):
        tensors[3] = torch.nn.functional.pad(tensors[3], (0, width - tensors[3].shape[1]))
        tensors[1:3] = [torch.cat((c, c.new_zeros(blocks - len(c), *c.shape[1:]))) for c in tensors[1:3]]

    def step():
        return paged_attention(*first, 128**-0.5, 512, backend="triton")

    step()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = step()
    for tensor, other in zip(first, second):
        tensor.copy_(other)
    graph.replay()
    close(out, batches[1].expected())


def test_fp32_attention_is_not_tf32():
    """fp32 models are exact enough for token parity: no silent 10-bit products."""
    batch = paged_batch([(1, 900), (100, 700)], GPU, heads=(8, 2), head_dim=128)
    close(attend(batch, GPU), batch.expected())


def test_a_graph_replays_other_lengths():
    """Grids depend on shapes only: a graph captured on padding rows serves any lengths afterwards."""
    batch = paged_batch([(1, context) for context in contexts(8, 500)], GPU, heads=(8, 2), head_dim=128, dtype=BF16)
    rows, starts = (torch.full((8,), fill, dtype=torch.int32, device="cuda") for fill in (-1, 0))
    query_starts = torch.arange(9, dtype=torch.int32, device="cuda")
    tables, tokens = batch.block_tables.clone(), torch.zeros(8, 600, dtype=torch.int32, device="cuda")

    def step():
        staged = stage(rows, starts, query_starts, tables, tokens, 16, 8, backend="triton")
        arguments = batch.q, batch.k_cache, batch.v_cache, tables, query_starts, staged.context_lens
        return paged_attention(*arguments, 128**-0.5, 1, backend="triton")

    step()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = step()
    graph.replay()
    assert out.eq(0).all()
    rows.copy_(torch.arange(8))
    starts.copy_(batch.context_lens - 1)
    graph.replay()
    close(out, batch.expected())


@pytest.mark.parametrize("shape", ((8192, 4096), (32768, 1024), (256, 8192), (1, 4096), (3001, 2560)), ids=str)
def test_norms_full_shapes(shape):
    """The widths of real models, many rows and one."""
    x, before, weight = random(*shape), random(*shape), random(shape[1])
    residual = before.clone()
    with poisoned():
        y, z = rmsnorm(x, weight, EPS, backend="triton"), add_rmsnorm(x, residual, weight, EPS, backend="triton")
    close(y, unit(x) * weight.double())
    assert torch.equal(residual, x + before)
    close(z, unit(residual) * weight.double())


@pytest.mark.parametrize("shape", ((8192, 14336), (32768, 3072), (1, 3072)), ids=str)
def test_silu_mul_full_shapes(shape):
    """Gate and up halves of real models."""
    gate_up = random(shape[0], 2 * shape[1])
    gate, up = gate_up.float().chunk(2, -1)
    with poisoned():
        y = silu_mul(gate_up, backend="triton")
    close(y, gate * gate.sigmoid() * up, BF16)


@pytest.mark.parametrize("rows", (1, 2, 4, 8, 16, 32, 57))
@pytest.mark.parametrize(
    ("inputs", "outputs", "parts"),
    ((1024, 4096, "norm"), (2048, 1024, "residual"), (1024, 6144, "norm gated"), (3072, 1024, "residual"),
     (4096, 28672, "norm gated"), (14336, 4096, "residual"), (1024, 151936, "norm")),
)  # fmt: skip
def test_linear_full_shapes(rows, inputs, outputs, parts):
    """The products of Qwen3-0.6B and of Llama-3.1-8B, and a chain of them that a dependent launch may overlap."""
    has = {part: part in parts for part in ("bias", "norm", "gated", "residual")}
    x, weight, bias, norm, residual = layer(GPU, rows, inputs, outputs, BF16, **has)
    expected = formula(x, weight, bias, norm, has["gated"], residual)
    with poisoned():
        y = linear(x, weight, bias, norm=norm, eps=EPS, gated=has["gated"], residual=residual, backend="triton")
    agrees(y, expected, BF16)


@pytest.mark.parametrize(
    ("rows", "dtype"),
    ((1, BF16), (1, torch.float16), (2, BF16), (16, torch.float16), (64, BF16), (200, BF16), (300, BF16)),
    ids=str,
)
@pytest.mark.parametrize(
    ("inputs", "outputs", "parts"),
    ((1024, 4096, "norm"), (3072, 1024, "residual"), (4096, 28672, "norm gated"), (14336, 4096, "residual")),
)
@pytest.mark.parametrize("form", WEIGHT_FORMATS)
def test_quant_linear_full_shapes(form, inputs, outputs, parts, rows, dtype):
    """The products of real models in every format, and every way to compute them: fields that the compiled kernels
    take apart with instructions of their own equal the plain ones of the reference."""
    has = {part: part in parts for part in ("bias", "norm", "gated", "residual")}
    x, weight, bias, norm, residual = layer(GPU, rows, inputs, outputs, dtype, **has)
    stored = quantise(weight, form)
    expected = formula(x, stored.dequantise(), bias, norm, has["gated"], residual)
    with poisoned():
        y = quant_linear.linear(
            x, stored, bias, norm=norm, eps=EPS, gated=has["gated"], residual=residual, backend="triton"
        )
    agrees(y, expected, dtype)


@pytest.mark.parametrize("rows", (1, 4, 8, 16, 48, 80))
def test_a_chain_of_dependent_layers(rows):
    """Each kernel may start before the one in front has ended: 100 replayed layers, fused and (80 rows) composed,
    equal the same layers one by one. A read or a store ahead of its wait would show as another bit somewhere."""
    batch = paged_batch([(1, 600)] * rows, GPU, heads=(16, 8), head_dim=128, dtype=BF16)
    qkv, o, down = random(4096, 1024) / 32, random(1024, 2048) / 800, random(1024, 3072) / 1000
    gate_up, norm, head_norm = random(6144, 1024) / 32, random(1024), random(128)
    start, cos_sin = random(rows, 1024), random(700, 128, dtype=torch.float32)
    positions = batch.context_lens - 1
    slots = batch.block_tables.gather(1, (positions // 16).long()[:, None])[:, 0] * 16 + positions % 16
    caches, state = (batch.k_cache, batch.v_cache), start.clone()
    tables, sizes = (batch.block_tables, batch.query_starts, batch.context_lens), {"num_q_heads": 16, "num_kv_heads": 8}

    def step():
        x = linear(state, qkv, norm=norm, eps=EPS, backend="triton")
        q = rope_write_kv(x, positions, slots, cos_sin, *caches, head_norm, head_norm, **sizes, backend="triton")
        attended = paged_attention(q, *caches, *tables, 128**-0.5, 1, backend="triton")
        linear(attended.view(rows, -1), o, residual=state, backend="triton")
        hidden = linear(state, gate_up, norm=norm, eps=EPS, gated=True, backend="triton")
        linear(hidden, down, residual=state, backend="triton")

    for _ in range(100):
        step()
        torch.cuda.synchronize()
    expected = state.clone()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(100):
            step()
    for _ in range(3):
        state.copy_(start)
        graph.replay()
        assert expected.isfinite().all() and torch.equal(state, expected)


@pytest.mark.parametrize("dtype", (torch.float32, BF16), ids=str)
def test_sampling_of_a_wide_vocabulary(dtype):
    """256 rows of 151,936 logits: greedy is argmax; drawn tokens are the reference's, rounding of near ties apart."""
    rows, vocab = 256, 151936
    logits = (random(rows, vocab, dtype=torch.float32) * 3).to(dtype)
    seeds = torch.arange(rows, device="cuda") * 1234567891011 - 5
    positions = torch.arange(rows, device="cuda", dtype=torch.int32)
    zero, one = torch.zeros(rows, device="cuda"), torch.ones(rows, device="cuda")
    greedy = sample(logits, zero, positions, one, zero, seeds, positions, True, backend="triton")
    assert logits.gather(1, greedy[:, None].long()).eq(logits.amax(1, keepdim=True)).all()
    top_k = torch.where(positions % 2 == 0, 50, 0).int()
    for plain in (True, False):
        arguments = logits, 0.8 * one, top_k, 0.95 * one, 0.001 * one, seeds, positions, plain
        assert (sample(*arguments, backend="triton") == sample_reference(*arguments)).float().mean() > 0.97


def test_default_backend_is_triton():
    """On this device a launcher without ``backend`` runs the kernel: same bits."""
    x, weight = random(16, 512), random(512)
    assert torch.equal(rmsnorm(x, weight, EPS), rmsnorm(x, weight, EPS, backend="triton"))
