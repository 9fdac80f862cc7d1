"""Paged attention, run by every backend: imported by the test modules that provide the fixture ``target``."""

import dataclasses

import pytest
import torch

from kernels.attention import paged_attention
from tests.kernels.inputs import close, paged_batch, poisoned

DTYPES = (torch.float32, torch.float16, torch.bfloat16)
HEADS = ((6, 2), (7, 1), (12, 2), (14, 2), (28, 4), (5, 5), (16, 1))


def attend(batch, target, **kwargs):
    with poisoned():
        scales = {"k_scale": batch.k_scale, "v_scale": batch.v_scale}
        return paged_attention(*batch.arguments(), backend=target.backend, **scales, **kwargs)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_C_08_decode_equals_the_dense_formula(target, dtype):
    """Slots outside the rows are NaN, table entries past a context point nowhere: nothing else is read (C-08)."""
    batch = paged_batch([(1, 5), (1, 37), (1, 16)], target, dtype=dtype)
    close(attend(batch, target, splits=2), batch.expected(), dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_mixed_step_equals_the_dense_formula(target, dtype):
    """A prompt, a decode row, a later chunk of another prompt, padding, and tokens of no row, in one step."""
    batch = paged_batch([(9, 9), (1, 21), (6, 30), (1, 0), (3, 0)], target, dtype=dtype, tail=3)
    close(attend(batch, target), batch.expected(), dtype)


@pytest.mark.parametrize("heads", HEADS, ids=str)
def test_C_05_any_number_of_query_heads_per_kv_head(target, heads):
    """Ratios that are no power of two must not let padded heads touch the next group (C-05)."""
    batch = paged_batch([(1, 1), (1, 17), (2, 34)], target, heads=heads, dtype=torch.float16)
    close(attend(batch, target), batch.expected())


@pytest.mark.parametrize("head_dim", (64, 80, 96, 128, 256))
def test_C_04_head_dims(target, head_dim):
    """A tile as wide as the next power of two must be masked to the true width (C-04)."""
    batch = paged_batch([(1, 19), (5, 18)], target, head_dim=head_dim, dtype=torch.float16)
    close(attend(batch, target), batch.expected())


@pytest.mark.parametrize("block_size", (8, 16, 24, 256))
def test_C_14_block_sizes(target, block_size):
    """Positions map to blocks for any size, powers of two or not; each row equals its solo run (C-14)."""
    batch = paged_batch([(1, 1), (1, block_size), (1, min(block_size, 40) + 1)], target, block_size=block_size)
    close(attend(batch, target), batch.expected())


def test_C_06_padding_rows_and_empty_shares_are_zero_never_nan(target):
    """A row without keys, and shares without keys (context 3 in 4 shares), once gave inf - inf = NaN (C-06)."""
    batch = paged_batch([(1, 0), (1, 3), (1, 70)], target)
    out = attend(batch, target, splits=4)
    assert out[0].eq(0).all()
    close(out, batch.expected())


def test_rows_without_queries_and_tokens_of_no_row(target):
    """Padding may also be rows of zero tokens: their neighbours are untouched, left-over tokens are zero."""
    batch = paged_batch([(1, 4), (0, 0), (1, 18), (0, 0)], target, tail=2)
    out = attend(batch, target)
    assert out[2:].eq(0).all()
    close(out, batch.expected())


def test_C_07_lanes_past_the_context_weigh_nothing(target):
    """With q = 0 the answer is the mean of the row's values, for contexts around every tile edge (C-07)."""
    contexts = (1, 15, 16, 17, 32, 63, 64, 65)
    batch = paged_batch([(1, context) for context in contexts], target, heads=(1, 1))
    batch.q.zero_()
    mean = torch.stack([v.float().mean(0) for _, v in batch.dense])
    close(attend(batch, target), mean)


@pytest.mark.parametrize("splits", (2, 3, 8, 16))
def test_C_13_sharing_a_context_does_not_change_the_answer(target, splits):
    """The merge of partial softmaxes, with more shares than tokens too (C-13)."""
    batch = paged_batch([(1, context) for context in (1, 7, 33, 129)], target, heads=(2, 1))
    close(attend(batch, target, splits=splits), attend(batch, target, splits=1))


def test_a_prompt_in_chunks_equals_the_prompt_at_once(target):
    """The causal offset of a chunk is what came before it, not zero."""
    whole = paged_batch([(20, 20)], target)
    out = attend(whole, target)
    for begin, end in ((0, 7), (7, 8), (8, 20)):
        counts = {"query_starts": [0, end - begin], "context_lens": [end]}
        fields = {k: torch.tensor(v, dtype=torch.int32, device=target.device) for k, v in counts.items()}
        chunk = dataclasses.replace(whole, q=whole.q[begin:end], rows=[(end - begin, end)], **fields)
        close(attend(chunk, target), out[begin:end])


def test_C_02_views_of_a_fused_buffer_and_another_cache_layout(target):
    """q as a slice of the qkv product and a cache stored token-major give the same bits as contiguous copies (C-02)."""
    for rows in ([(1, 5), (1, 20)], [(5, 5), (1, 20)]):
        batch = paged_batch(rows, target)
        tokens, heads, head_dim = batch.q.shape
        fused = torch.full((tokens, heads + 4, head_dim), torch.nan, device=target.device)
        fused[:, :heads] = batch.q
        caches = (cache.transpose(1, 2).contiguous().transpose(1, 2) for cache in (batch.k_cache, batch.v_cache))
        views = dataclasses.replace(batch, q=fused[:, :heads], **dict(zip(("k_cache", "v_cache"), caches)))
        assert torch.equal(attend(views, target), attend(batch, target))


def test_C_09_indices_of_64_bits(target):
    """int64 tables read as int32 once gave zeros for all rows but the first (C-09)."""
    batch = paged_batch([(1, 5), (1, 20), (2, 9)], target)
    wide = {name: getattr(batch, name).long() for name in ("block_tables", "query_starts", "context_lens")}
    assert torch.equal(attend(dataclasses.replace(batch, **wide), target), attend(batch, target))


def test_no_tokens(target):
    """An empty step launches nothing and returns an empty tensor."""
    batch = paged_batch([(1, 5)], target)
    empty = dataclasses.replace(batch, q=batch.q[:0], query_starts=torch.zeros_like(batch.query_starts))
    assert attend(empty, target).shape == batch.q[:0].shape
