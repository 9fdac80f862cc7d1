"""Persistent rows: what the device remembers of each seat between steps.

    tokens[row, position]        the only token source: the host writes the prompt, the sampler writes position + 1
    block_tables[row, i]         block of positions i B .. (i + 1) B

A step sends only what changed. ``RowAdmit`` is the one write that resets a row; behind a table's end and behind a row's
last token stands whatever an earlier request left, and nothing reads it.
"""

import numpy as np
import torch

from engine.config import SchedulingConfig
from engine.step import Int32, RowAdmit, StepInput
from engine.worker.step_batch import Entries, Staging, StepBatch
from kernels.staging import stage

EMPTY: Int32 = np.empty(0, dtype=np.int32)


class Rows:
    """Device state of all seats, and the lengths of their block tables on the host."""

    def __init__(self, scheduling: SchedulingConfig, device: torch.device, backend: str) -> None:
        self.block_size, self.backend = scheduling.block_size, backend
        seats, width = scheduling.max_num_seqs, scheduling.max_model_len + 1
        max_blocks = -(-width // self.block_size)
        self.tokens = torch.zeros(seats, width, dtype=torch.int32, device=device)
        self.block_tables = torch.zeros(seats, max_blocks, dtype=torch.int32, device=device)
        self.table_lengths = np.zeros(seats, dtype=np.int64)
        self.staging = Staging(device)

    def forget(self) -> None:
        """Empty all rows. Only lengths say what is valid, so nothing on the device needs clearing."""
        self.table_lengths[:] = 0

    def update(self, step: StepInput, padded: tuple[int, int, int] | None = None) -> Entries:
        """Bring the step's diff to the device and update the rows.

        Args:
            padded: tokens, entries and longest entry to pad the step to (``graphs.Shape``), or None for no padding.
        """
        query_starts = np.concatenate(([0], np.cumsum(step.num_tokens)))
        num_tokens, num_entries, max_query_len = padded or (query_starts[-1], step.rows.size, step.num_tokens.max())
        entries = [
            _filled(step.rows, num_entries, -1),
            _filled(step.starts, num_entries, 0),
            _filled(query_starts, num_entries + 1, query_starts[-1]),
            np.flatnonzero(step.samples),
        ]
        tokens = [admit.token_ids for admit in step.admits]
        sent = self.staging.send([*entries, *self._block_diff(step), *tokens])
        seats, places, blocks = sent[4:7]
        if len(blocks):
            self.block_tables[seats, places] = blocks
        for admit, ids in zip(step.admits, sent[7:]):
            self.tokens[admit.row, : len(ids)] = ids
        longest = int((step.starts + step.num_tokens).max())
        return Entries(*sent[:4], int(num_tokens), int(max_query_len), longest)

    def expand(self, entries: Entries, table_width: int) -> StepBatch:
        """Per-token metadata, computed on the device. ``table_width``: blocks of a table that kernels may read."""
        rows, starts = entries.rows, entries.query_starts
        tables, size = self.block_tables, self.block_size
        staged = stage(rows, entries.starts, starts, tables, size, entries.num_tokens, backend=self.backend)
        return StepBatch(
            token_ids=self.tokens[staged.seats, staged.positions],  # padding: any valid id
            positions=staged.positions,
            slots=staged.slots,
            block_tables=tables[rows, :table_width],
            query_starts=starts,
            context_lens=staged.context_lens,
            last=staged.last,
            max_query_len=entries.max_query_len,
            backend=self.backend,
        )

    def _block_diff(self, step: StepInput) -> tuple[Int32, Int32, Int32]:
        """Seat, place in its table and block id of every block that tables gain in this step."""
        parts = [self._reset_table(admit) for admit in step.admits]
        if step.new_block_rows.size:
            parts.append((step.new_block_rows, self._places(step.new_block_rows), step.new_block_ids))
        if not parts:
            return EMPTY, EMPTY, EMPTY
        seats, places, blocks = (np.concatenate(column).astype(np.int32) for column in zip(*parts))
        return seats, places, blocks

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


def _filled(array: Int32, size: int, value: int) -> Int32:
    """``array`` followed by ``value`` up to ``size``."""
    if array.size == size:
        return array
    filled = np.full(size, value, dtype=np.int32)
    filled[: array.size] = array
    return filled
