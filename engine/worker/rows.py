"""Persistent rows: what the device remembers of each seat between steps.

    tokens[row, position]        the only token source: the host writes the prompt, ``close_step`` writes position + 1
    block_tables[row, i]         block of positions i B .. (i + 1) B

A step sends only what changed. ``RowAdmit`` is the one write that resets a row; behind a table's end and behind a row's
last token stands whatever an earlier request left, and nothing reads it. The row behind the last seat takes what
padding writes.
"""

from collections.abc import Sequence

import numpy as np
import torch

from engine.config import SchedulingConfig
from engine.step import Int32, RowAdmit, StepInput
from engine.worker.sampler import Sampler
from engine.worker.step_batch import Entries, Staging, StepBatch
from kernels.staging import fetch_seats, stage

NO_CHANGES: Int32 = np.empty((0, 3), dtype=np.int32)


class Rows:
    """Device state of all seats, and the lengths of their block tables on the host."""

    def __init__(self, scheduling: SchedulingConfig, sampler: Sampler, device: torch.device, backend: str) -> None:
        self.block_size, self.backend = scheduling.block_size, backend
        seats, width = scheduling.max_num_seqs, scheduling.max_model_len + 1
        max_blocks = -(-width // self.block_size)
        self.tokens = torch.zeros(seats + 1, width, dtype=torch.int32, device=device)
        self.block_tables = torch.zeros(seats + 1, max_blocks, dtype=torch.int32, device=device)
        self.table_lengths = np.zeros(seats, dtype=np.int32)
        self.temperature, self.seeds = sampler.floats[0], sampler.seeds  # the sampler's: it writes them
        self.staging = Staging(device)

    def forget(self) -> None:
        """Empty all rows. Only lengths say what is valid, so nothing on the device needs clearing."""
        self.table_lengths[:] = 0

    def admit(self, admits: Sequence[RowAdmit]) -> None:
        """Bring the tokens of fresh rows to the device."""
        if not admits:
            return
        counts = [len(admit.token_ids) for admit in admits]
        seats = np.repeat(np.array([admit.row for admit in admits], dtype=np.int32), counts)
        places = np.concatenate([np.arange(count, dtype=np.int32) for count in counts])
        ids = np.concatenate([np.asarray(admit.token_ids, dtype=np.int32) for admit in admits])
        seats, places, ids = self.staging.send([seats, places, ids])
        self.tokens[seats, places] = ids

    def grow(self, step: StepInput) -> Int32:
        """Seat, place in its table and block id (int32 [n, 3]) of every block that tables gain in this step."""
        if not step.admits and not step.new_block_rows.size:
            return NO_CHANGES
        parts = [self._reset_table(admit) for admit in step.admits]
        parts.append((step.new_block_rows, self._places(step.new_block_rows), step.new_block_ids))
        return np.stack([np.concatenate(column) for column in zip(*parts)], axis=1)

    def write_tables(self, changes: Int32) -> None:
        """Write changes at once, for a step that has more of them than the inbox takes."""
        seats, places, blocks = self.staging.send(list(changes.T))
        self.block_tables[seats, places] = blocks

    def expand(self, entries: Entries, table_width: int) -> StepBatch:
        """Per-token metadata, computed on the device. ``table_width``: blocks of a table that kernels may read."""
        rows, starts, shape = entries.rows, entries.query_starts, entries.shape
        tables, size, backend = self.block_tables, self.block_size, self.backend
        staged = stage(rows, entries.starts, starts, tables, self.tokens, size, shape.tokens, backend=backend)
        seated = fetch_seats(rows, tables, self.temperature, self.seeds, table_width, backend=backend)
        return StepBatch(
            rows=rows,
            token_ids=staged.token_ids,
            positions=staged.positions,
            slots=staged.slots,
            block_tables=seated.tables,
            query_starts=starts,
            context_lens=staged.context_lens,
            last=staged.last,
            max_query_len=shape.max_query_len,
            filtered=shape.filtered,
            temperature=seated.temperature,
            seeds=seated.seeds,
            backend=backend,
        )

    def _reset_table(self, admit: RowAdmit) -> tuple[Int32, Int32, Int32]:
        """The table of a fresh row starts with its hit blocks."""
        count = len(admit.blocks)
        self.table_lengths[admit.row] = count
        places = np.arange(count, dtype=np.int32)
        return np.full(count, admit.row, np.int32), places, np.asarray(admit.blocks, dtype=np.int32)

    def _places(self, rows: Int32) -> Int32:
        """Where each new block goes: behind the table's end, counting up when a row gets several."""
        order = np.argsort(rows, kind="stable")
        ordered = rows[order]
        first = np.searchsorted(ordered, ordered)  # where the run of equal rows starts
        places = np.empty(rows.size, dtype=np.int32)
        places[order] = self.table_lengths[ordered] + np.arange(rows.size) - first
        np.add.at(self.table_lengths, rows, 1)
        return places
