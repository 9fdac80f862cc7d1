"""Inputs and oracles of the kernel tests: fresh random data, poison where nothing may read, formulas of their own."""

from contextlib import contextmanager
from dataclasses import dataclass, replace

import torch
from torch.nn import functional

from kernels.kv_format import dequantise_reference, quantise_reference

NO_BLOCK = 2**30  # an id far outside any pool: reading through it is an illegal access, or an IndexError
TOLERANCE = {torch.float32: 2e-5, torch.float16: 4e-3, torch.bfloat16: 2e-2}  # absolute and relative


@dataclass(frozen=True)
class Target:
    """Where a case runs, and what."""

    device: str
    backend: str

    @property
    def interpreted(self):
        """True in Triton's interpreter, which is too slow for many rows."""
        return self.device == "cpu" and self.backend == "triton"


@contextmanager
def poisoned():
    """Memory that ``torch.empty`` hands out is filled with NaN (integers: their maximum)."""
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


def close(actual, expected, dtype=None):
    """``actual`` is finite and within one rounding step or so of ``expected``, a tensor of higher precision."""
    tolerance = TOLERANCE[dtype or actual.dtype]
    torch.testing.assert_close(actual.double().cpu(), expected.double().cpu(), atol=tolerance, rtol=tolerance)


@dataclass
class PagedBatch:
    """Rows of (queries, context) over a pool in which every slot that no row owns is NaN."""

    q: torch.Tensor
    k_cache: torch.Tensor
    v_cache: torch.Tensor
    block_tables: torch.Tensor
    query_starts: torch.Tensor
    context_lens: torch.Tensor
    rows: list[tuple[int, int]]
    dense: list[tuple[torch.Tensor, torch.Tensor]]  # per row: k, v (context, Hkv, D)
    k_scale: torch.Tensor | None = None
    v_scale: torch.Tensor | None = None

    def arguments(self):
        """Positional arguments of ``paged_attention``."""
        longest = max(queries for queries, _ in self.rows)
        scale = self.q.shape[-1] ** -0.5
        tables = (self.block_tables, self.query_starts, self.context_lens)
        return self.q, self.k_cache, self.v_cache, *tables, scale, longest

    def expected(self):
        """The dense formula row by row, in fp32, by PyTorch's own attention."""
        out = torch.zeros(self.q.shape, dtype=torch.float32, device=self.q.device)
        begin = 0
        for (queries, context), (k, v) in zip(self.rows, self.dense):
            if context and queries:
                q = self.q[begin : begin + queries].float().transpose(0, 1)
                k, v = (x.float().repeat_interleave(q.shape[0] // x.shape[1], 1).transpose(0, 1) for x in (k, v))
                seen = torch.ones(queries, context, dtype=torch.bool, device=q.device).tril(context - queries)
                answer = functional.scaled_dot_product_attention(q[None], k[None], v[None], attn_mask=seen)[0]
                out[begin : begin + queries] = answer.transpose(0, 1)
            begin += queries
        return out


def paged_batch(rows, target, heads=(4, 2), head_dim=64, block_size=16, dtype=torch.float32, tail=0, seed=0):
    """Build a ``PagedBatch``; ``tail`` more tokens belong to no row."""
    draw = torch.Generator().manual_seed(seed)
    needed = [-(-context // block_size) for _, context in rows]
    blocks = (torch.randperm(sum(needed) + 2, generator=draw) + 1).tolist()  # block 0 is reserved
    k_cache, v_cache = (torch.full((len(blocks) + 1, heads[1], block_size, head_dim), torch.nan) for _ in range(2))
    tables = torch.full((len(rows), max(needed) + 1), NO_BLOCK, dtype=torch.int32)
    dense = []
    for row, (_, context) in enumerate(rows):
        mine = [blocks.pop() for _ in range(needed[row])]
        tables[row, : len(mine)] = torch.tensor(mine, dtype=torch.int32)
        k, v = (torch.randn(context, heads[1], head_dim, generator=draw).to(dtype) for _ in range(2))
        for cache, x in ((k_cache, k), (v_cache, v)):
            whole = torch.full((len(mine) * block_size, *x.shape[1:]), torch.nan)
            whole[:context] = x
            cache[mine] = whole.unflatten(0, (len(mine), block_size)).transpose(1, 2)
        dense.append((k.to(target.device), v.to(target.device)))
    starts = torch.tensor([0, *(queries for queries, _ in rows)]).cumsum(0).int()
    q = torch.randn(int(starts[-1]) + tail, heads[0], head_dim, generator=draw).to(dtype)
    caches = (cache.to(target.device, dtype) for cache in (k_cache, v_cache))
    contexts = torch.tensor([context for _, context in rows], dtype=torch.int32)
    indices = (x.to(target.device) for x in (tables, starts, contexts))
    return PagedBatch(q.to(target.device), *caches, *indices, rows, dense)


def in_8_bits(batch, kv_dtype):
    """The same batch over an 8-bit cache. Where no row owns a slot its scale is NaN, and what is stored is extreme."""
    quantised = []
    for cache in (batch.k_cache, batch.v_cache):
        nobody = cache.isnan().any(-1)
        stored, scale = quantise_reference(cache.nan_to_num(0), kv_dtype)
        stored.view(torch.int8)[nobody] = 127
        scale[nobody] = torch.nan
        quantised.append((stored, scale))
    (k_cache, k_scale), (v_cache, v_scale) = quantised
    dense = [tuple(dequantise_reference(*quantise_reference(x, kv_dtype)) for x in row) for row in batch.dense]
    return replace(batch, k_cache=k_cache, v_cache=v_cache, dense=dense, k_scale=k_scale, v_scale=v_scale)
