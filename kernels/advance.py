"""What a step does to the persistent rows before and after its layers, on the device alone.

    open_step   tables[seat, place] = block for each change of the step; the clock is read
    close_step  tokens[row, end] = id for each row that samples; starts = ends; the ids and the clock go to the outbox

With both inside a CUDA graph a row that goes on decoding needs nothing from the host: its position, its context and its
last token are where the step before left them. Each is one program, so the step's few hundred integers need no
second kernel to agree on the cursor of the outbox.

    outbox[cursor]   begin (2 words, ns) | end (2 words, ns) | id of entry 0, 1, ...    cursor: 0, 1, ... slots - 1, 0

Seat -1 is the last row of ``tokens`` and of ``tables``, which belongs to nobody: padding is written there.
"""

import torch

from kernels.backend import INTERPRET, check_rows, jit, tl, use_triton

CHANGES_AT = 4  # words before the first change: the number of changes, then nothing
CHANGE_WORDS = 3  # seat, place in its table, block
IDS_AT = 4  # words before the ids in a slot of the outbox
BLOCK = 256


def open_step_reference(changes: torch.Tensor, tables: torch.Tensor) -> None:
    """What ``open_step`` does to the tables, in plain PyTorch."""
    listed = changes[CHANGES_AT:].view(-1, CHANGE_WORDS)
    real = torch.arange(len(listed), device=changes.device) < changes[0]
    seats, places, blocks = listed.T
    tables[torch.where(real, seats, -1), torch.where(real, places, 0)] = blocks


def close_step_reference(
    ids: torch.Tensor,
    rows: torch.Tensor,
    starts: torch.Tensor,
    query_starts: torch.Tensor,
    samples: torch.Tensor,
    tokens: torch.Tensor,
    changes: torch.Tensor,
    outbox: torch.Tensor,
    cursor: torch.Tensor,
) -> None:
    """What ``close_step`` does, in plain PyTorch."""
    ends = starts + query_starts.diff() * (rows >= 0)
    sampling = (rows >= 0) & (samples != 0)
    tokens[torch.where(sampling, rows, -1), torch.where(sampling, ends, 0)] = ids
    starts.copy_(ends)
    outbox[cursor, IDS_AT : IDS_AT + len(ids)] = ids
    changes[0] = 0
    cursor.copy_((cursor + 1) % len(outbox))


@jit
def _open_kernel(
    change_ptr, table_ptr, stamp_ptr, cursor_ptr, table_stride, stamp_stride,
    TIMED: tl.constexpr, CHANGES_AT: tl.constexpr, CHANGE_WORDS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """One program: the begin of the step, then BLOCK changes at a time."""
    if TIMED:
        tl.store(stamp_ptr + tl.load(cursor_ptr) * stamp_stride, tl.extra.cuda.globaltimer())
    count = tl.load(change_ptr)
    for first in range(0, count, BLOCK):
        index = first + tl.arange(0, BLOCK)
        real = index < count
        change = change_ptr + CHANGES_AT + index * CHANGE_WORDS
        seat = tl.load(change, mask=real, other=0).to(tl.int64)
        place = tl.load(change + 1, mask=real, other=0)
        tl.store(table_ptr + seat * table_stride + place, tl.load(change + 2, mask=real, other=0), mask=real)


@jit
def _close_kernel(
    id_ptr, row_ptr, start_ptr, query_start_ptr, sample_ptr, token_ptr, change_ptr, outbox_ptr, stamp_ptr, cursor_ptr,
    num_entries, token_stride, outbox_stride, stamp_stride, slots,
    TIMED: tl.constexpr, IDS_AT: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """One program: BLOCK entries at a time, then the end of the step."""
    cursor = tl.load(cursor_ptr)
    for first in range(0, num_entries, BLOCK):
        entry = first + tl.arange(0, BLOCK)
        inside = entry < num_entries
        row = tl.load(row_ptr + entry, mask=inside, other=-1).to(tl.int64)
        real = inside & (row >= 0)
        length = tl.load(query_start_ptr + entry + 1, mask=real, other=0)
        length -= tl.load(query_start_ptr + entry, mask=real, other=0)
        end = tl.load(start_ptr + entry, mask=real, other=0) + length
        chosen = tl.load(id_ptr + entry, mask=inside, other=0)
        sampling = real & (tl.load(sample_ptr + entry, mask=real, other=0) != 0)
        tl.store(token_ptr + row * token_stride + end, chosen, mask=sampling)
        tl.store(start_ptr + entry, end, mask=real)
        tl.store(outbox_ptr + cursor * outbox_stride + IDS_AT + entry, chosen, mask=inside)
    tl.store(change_ptr, 0)
    if TIMED:
        tl.store(stamp_ptr + cursor * stamp_stride + 1, tl.extra.cuda.globaltimer())
    tl.debug_barrier()  # every warp has read the cursor
    tl.store(cursor_ptr, (cursor + 1) % slots)


def open_step(
    changes: torch.Tensor,
    tables: torch.Tensor,
    outbox: torch.Tensor,
    cursor: torch.Tensor,
    backend: str | None = None,
) -> None:
    """Write the step's changes into the block tables, in place. On CUDA the begin is noted in ``outbox[cursor]``.

    Args:
        changes: (4 + 3 n,) int32: how many changes count, three words of nothing, then seat, place and block of each.
        tables: (seats + 1, blocks) int32.
        outbox: (slots, 4 + entries) int32, an even number of words a slot.
        cursor: (1,) int32, the slot of this step.
    """
    if not use_triton(backend, changes):
        return open_step_reference(changes, tables)
    check_rows(tables=tables, outbox=outbox)
    stamps = outbox.view(torch.int64)
    _open_kernel[(1,)](
        changes, tables, stamps, cursor, tables.stride(0), stamps.stride(0),
        TIMED=not INTERPRET, CHANGES_AT=CHANGES_AT, CHANGE_WORDS=CHANGE_WORDS, BLOCK=BLOCK, num_warps=4,
    )  # fmt: skip
    return None


def close_step(
    ids: torch.Tensor,
    rows: torch.Tensor,
    starts: torch.Tensor,
    query_starts: torch.Tensor,
    samples: torch.Tensor,
    tokens: torch.Tensor,
    changes: torch.Tensor,
    outbox: torch.Tensor,
    cursor: torch.Tensor,
    backend: str | None = None,
) -> None:
    """Hand each sampled id to its row and to the outbox, and leave everything ready for the rows' next token.

    Args:
        ids: (R,) int32, one per entry; those of entries that do not sample go to the outbox only.
        rows: (R,) int32, seat of each entry, -1 for padding.
        starts: (R,) int32, moved on by the entry's tokens in place.
        query_starts: (R + 1,) int32.
        samples: (R,) int32, not 0 where the entry's last token gives the next one.
        tokens: (seats + 1, width) int32.
        changes: its count is set to 0.
        outbox, cursor: as in ``open_step``; the cursor moves on.
    """
    if not use_triton(backend, ids):
        return close_step_reference(ids, rows, starts, query_starts, samples, tokens, changes, outbox, cursor)
    check_rows(tokens=tokens, outbox=outbox)
    stamps = outbox.view(torch.int64)
    _close_kernel[(1,)](
        ids, rows, starts, query_starts, samples, tokens, changes, outbox, stamps, cursor,
        ids.numel(), tokens.stride(0), outbox.stride(0), stamps.stride(0), len(outbox),
        TIMED=not INTERPRET, IDS_AT=IDS_AT, BLOCK=BLOCK, num_warps=4,
    )  # fmt: skip
    return None


def stamps_of(slot: torch.Tensor) -> torch.Tensor:
    """Begin and end (int64, ns of the device's clock; 0 where it was not read) of a slot of the outbox."""
    return slot[:IDS_AT].view(torch.int64)
