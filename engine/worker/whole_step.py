"""A whole step on the device: tables, metadata, layers, head, choice, and the rows made ready for the next one.

    inbox -> open_step -> stage -> layers -> head -> sample -> close_step -> tokens, starts, outbox

Nothing in it depends on the host but the shape, so the same lines run eagerly and are captured in a CUDA graph. The
choice made here is by temperature and filters; what penalties, forbidden ids or log-probabilities ask for is done
behind the step, from its logits (``steps``).
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from engine.config import SchedulingConfig
from engine.worker.inbox import Inbox
from engine.worker.kv_cache import KVCache
from engine.worker.model import Model
from engine.worker.outbox import Outbox
from engine.worker.rows import Rows
from engine.worker.sampler import Sampler
from engine.worker.step_batch import Shape
from kernels.advance import close_step, open_step


@dataclass(slots=True)
class WholeStep:
    """Everything a step touches. All of it stays where it is, so that a graph finds it again."""

    model: Model
    cache: KVCache
    rows: Rows
    sampler: Sampler
    inbox: Inbox
    outbox: Outbox
    logits: Tensor  # [entries, vocab]: of the last token of each entry of the last step

    @classmethod
    def build(cls, model: Model, cache: KVCache, limits: SchedulingConfig, entries: int, backend: str) -> "WholeStep":
        """Rows, sampler, inbox and outbox for ``limits``. ``entries``: the most of a step, padding included."""
        device, spec = model.embedding.device, model.spec
        sampler = Sampler(spec, limits.max_num_seqs, device, backend)
        changes = limits.token_budget // limits.block_size + 2 * limits.max_num_seqs
        return cls(
            model=model,
            cache=cache,
            rows=Rows(limits, sampler, device, backend),
            sampler=sampler,
            inbox=Inbox(entries, changes, device),
            outbox=Outbox(entries, device),
            logits=torch.empty(entries, spec.vocab_size, dtype=spec.dtype, device=device),
        )

    def forget(self) -> None:
        """Empty all rows and begin the outbox anew. Nothing may be in flight."""
        self.rows.forget()
        self.sampler.forget()
        self.inbox.forget()
        self.outbox.rewind()

    def rest(self, shape: Shape) -> None:
        """Fill the inbox with padding alone and begin the outbox anew. Nothing may be in flight."""
        entries = self.inbox.entries(shape)
        entries.rows.fill_(-1)
        for part in (entries.starts, entries.samples, entries.query_starts, self.inbox.changes[:1]):
            part.zero_()
        self.inbox.forget()
        self.outbox.rewind()

    def run(self, shape: Shape, table_width: int | None = None, draw: bool = True) -> None:
        """Run the step that stands in the inbox.

        Args:
            shape: as it was sent.
            table_width: blocks of a table that kernels may read; None: all.
            draw: whether to choose tokens; without it the outbox and the rows get id 0, to be overwritten.
        """
        entries, rows, backend = self.inbox.entries(shape), self.rows, self.rows.backend
        open_step(self.inbox.changes, rows.block_tables, self.outbox.data, self.outbox.cursor, backend=backend)
        batch = rows.expand(entries, table_width or rows.block_tables.shape[1])
        h = self.model.forward(batch, self.cache)
        if shape.max_query_len > 1:
            h = h[batch.last]
        logits = self.model.head(h, backend, out=self.logits[: shape.entries])
        ids = self.sampler.draw(logits, batch) if draw else torch.zeros_like(entries.rows)
        close_step(
            ids,
            entries.rows,
            entries.starts,
            entries.query_starts,
            entries.samples,
            rows.tokens,
            self.inbox.changes,
            self.outbox.data,
            self.outbox.cursor,
            backend=backend,
        )
