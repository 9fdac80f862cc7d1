"""CUDA graphs: a step as one launch instead of several hundred.

A graph is captured per padded shape and reads the step from buffers that never move. Two kinds: decode (every entry
one token, as many entries as tokens) and mixed (chunks and decodes together). Padding has row -1: no slot and no
context, so it writes nothing and reads nothing. What depends on a request's own parameters (penalties, filters, the
draw) stays outside.

    replay:  rows, starts, query_starts -> their buffers | metadata, layers, head -> logits, positions

Without a graph the same padded shapes run eagerly, so that kernels are compiled for few shapes.
"""

from bisect import bisect_left
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from engine.step import StepInput
from engine.worker.kv_cache import KVCache
from engine.worker.model import Model
from engine.worker.rows import Rows
from engine.worker.step_batch import Entries

DENSE = (
    1,
    2,
    4,
    8,
    16,
    24,
    32,
    48,
    64,
    *range(96, 257, 32),
    384,
    512,
    768,
)  # padded tokens; then 1, 1.5 times a power of 2


class Shape(NamedTuple):
    """A padded step."""

    tokens: int
    entries: int
    max_query_len: int  # 1: decode; else any chunk fits


class Shapes:
    """The padded shapes of an engine with these limits."""

    def __init__(self, max_num_seqs: int, token_budget: int) -> None:
        self.max_num_seqs = max_num_seqs
        large = [size for power in range(10, 18) for size in (1 << power, 3 << (power - 1))]  # 1024, 1536, 2048, ...
        self.buckets = [size for size in (*DENSE, *large) if size < token_budget] + [token_budget]

    def of(self, step: StepInput) -> Shape:
        """The smallest shape that holds ``step``."""
        bucket = self.buckets[bisect_left(self.buckets, step.total_tokens)]
        return self.decode(bucket) if step.total_tokens == step.rows.size else self.mixed(bucket)

    def decode(self, bucket: int) -> Shape:
        """As many entries as tokens."""
        return Shape(bucket, bucket, 1)

    def mixed(self, bucket: int) -> Shape:
        """As many entries as there can be."""
        return Shape(bucket, min(bucket, self.max_num_seqs), bucket)

    def all(self) -> list[Shape]:
        """Every shape that a step can have, largest first."""
        rows_fit = bisect_left(self.buckets, self.max_num_seqs) + 1
        decodes = [self.decode(bucket) for bucket in self.buckets[:rows_fit]]
        return sorted({*decodes, *(self.mixed(bucket) for bucket in self.buckets if bucket > 1)}, reverse=True)


@dataclass(slots=True)
class CapturedStep:
    """One captured shape, its inputs and its outputs."""

    graph: torch.cuda.CUDAGraph
    entries: Entries
    logits: Tensor  # [entries, vocab], of the last token of each
    positions: Tensor  # int32 [entries], where each entry's next token will stand


class StepGraphs:
    """Captured steps of one model, pool and set of rows. They hold no state: rows and pool do."""

    def __init__(self, model: Model, cache: KVCache, rows: Rows) -> None:
        self.model, self.cache, self.rows = model, cache, rows
        self.captured: dict[Shape, CapturedStep] = {}
        self.num_bytes = 0

    def capture(self, shapes: Shapes, bytes_per_token: float) -> None:
        """Capture every shape for whose activations there is memory, largest first: the smaller ones share its memory.

        Args:
            shapes: what steps will be padded to.
            bytes_per_token: activations of a step, per padded token.
        """
        device, spec = self.rows.tokens.device, self.model.spec
        free = torch.cuda.mem_get_info(device)[0]
        largest = max(shape.entries for shape in shapes.all())
        logits = torch.empty(largest, spec.vocab_size, dtype=spec.dtype, device=device)
        pool = torch.cuda.graph_pool_handle()
        for shape in shapes.all():
            if self.captured or 2 * shape.tokens * bytes_per_token < torch.cuda.mem_get_info(device)[0]:
                self.captured[shape] = self._capture(shape, logits[: shape.entries], pool)
        torch.cuda.synchronize(device)
        self.num_bytes = max(0, free - torch.cuda.mem_get_info(device)[0])

    @property
    def buckets(self) -> tuple[int, ...]:
        """Padded token counts that have a graph, whatever the step is made of."""
        return tuple(sorted({shape.tokens for shape in self.captured}))

    def _capture(self, shape: Shape, logits: Tensor, pool: tuple[int, int]) -> CapturedStep:
        entries = padding_only(shape, self.rows.tokens.device)
        self.run(entries, logits)  # compiles what capture must not compile
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=pool):
            positions = self.run(entries, logits)
        return CapturedStep(graph, entries, logits, positions)

    def run(self, entries: Entries, logits: Tensor) -> Tensor:
        """What a graph holds: fill ``logits`` with those of each entry's last token, return its next position."""
        batch = self.rows.expand(entries, self.rows.block_tables.shape[1])
        x, residual = self.model.forward(batch, self.cache)
        if entries.max_query_len > 1:
            x, residual = x[batch.last], residual[batch.last]
        logits.copy_(self.model.head(x, residual, self.rows.backend))
        return batch.context_lens

    def replay(self, shape: Shape, entries: Entries) -> CapturedStep:
        """Run a step that was padded to ``shape``; the outputs are valid until the next replay."""
        captured = self.captured[shape]
        captured.entries.rows.copy_(entries.rows)
        captured.entries.starts.copy_(entries.starts)
        captured.entries.query_starts.copy_(entries.query_starts)
        captured.graph.replay()
        return captured


def padding_only(shape: Shape, device: torch.device) -> Entries:
    """Entries that all are padding."""
    rows = torch.full((shape.entries,), -1, dtype=torch.int32, device=device)
    query_starts = torch.zeros(shape.entries + 1, dtype=torch.int32, device=device)
    return Entries(rows, torch.zeros_like(rows), query_starts, query_starts[:0], shape.tokens, shape.max_query_len, 0)
