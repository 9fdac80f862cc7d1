"""Step metadata built on the device, so that the host sends only a few integers per row.

Entry i of a step is a row (its seat ``rows[i]``), that computes the tokens ``query_starts[i] .. query_starts[i+1]`` of
the flat batch at positions ``starts[i] ..``. Each token needs its position, its cache slot (through the row's block
table) and its seat (to fetch its id from ``tokens[seat, position]``); each entry needs the index of its last token,
whose logits give the next one. Padding: entries with seat -1 and tokens past ``query_starts[R]`` get position 0,
slot -1 and seat -1.
"""

from typing import NamedTuple

import torch

from kernels.backend import check_rows, jit, tl, triton, use_triton


class Staged(NamedTuple):
    """Per token: ``positions``, ``slots``, ``seats`` (T,) int32. Per entry: ``context_lens``, ``last`` (R,) int32."""

    positions: torch.Tensor
    slots: torch.Tensor
    seats: torch.Tensor
    context_lens: torch.Tensor
    last: torch.Tensor


def stage_reference(
    rows: torch.Tensor,
    starts: torch.Tensor,
    query_starts: torch.Tensor,
    block_tables: torch.Tensor,
    block_size: int,
    num_tokens: int,
) -> Staged:
    """What ``stage`` computes, in plain PyTorch."""
    token = torch.arange(num_tokens, dtype=torch.int32, device=rows.device)
    entry = torch.searchsorted(query_starts, token, right=True).sub_(1).clamp_(max=rows.numel() - 1)
    seats = torch.where(token < query_starts[-1], rows[entry], -1)
    positions = torch.where(seats < 0, 0, starts[entry] + token - query_starts[entry])
    block = block_tables[seats.clamp(min=0), positions // block_size]
    slots = torch.where(seats < 0, -1, block * block_size + positions % block_size)
    lengths = query_starts.diff()
    context_lens = torch.where((rows >= 0) & (lengths > 0), starts + lengths, 0)
    last = (query_starts[1:] - 1).clamp_(min=0)
    return Staged(positions, slots, seats, context_lens, last)


@jit
def _stage_kernel(
    row_ptr, start_ptr, query_start_ptr, table_ptr, position_ptr, slot_ptr, seat_ptr, context_ptr, last_ptr,
    num_entries, num_tokens, table_stride,
    BLOCK_SIZE: tl.constexpr, HALVINGS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """BLOCK tokens and BLOCK entries per program; each token finds its entry by binary search in ``query_starts``."""
    token = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    in_tokens = token < num_tokens
    low, high = tl.zeros((BLOCK,), tl.int32), tl.zeros((BLOCK,), tl.int32) + num_entries
    for _ in tl.static_range(HALVINGS):  # query_starts[low] <= token < query_starts[high]
        middle = (low + high) // 2
        right = tl.load(query_start_ptr + middle) <= token
        low, high = tl.where(right, middle, low), tl.where(right, high, middle)
    real = in_tokens & (token < tl.load(query_start_ptr + num_entries))
    seat = tl.load(row_ptr + low, mask=real, other=-1).to(tl.int32)
    real = real & (seat >= 0)
    first = tl.load(query_start_ptr + low, mask=real, other=0)
    position = tl.where(real, tl.load(start_ptr + low, mask=real, other=0) + token - first, 0).to(tl.int32)
    block = tl.load(table_ptr + seat.to(tl.int64) * table_stride + position // BLOCK_SIZE, mask=real, other=0)
    tl.store(position_ptr + token, position, mask=in_tokens)
    tl.store(slot_ptr + token, tl.where(real, block * BLOCK_SIZE + position % BLOCK_SIZE, -1), mask=in_tokens)
    tl.store(seat_ptr + token, seat, mask=in_tokens)

    entry = token
    in_entries = entry < num_entries
    begin = tl.load(query_start_ptr + entry, mask=in_entries, other=0)
    end = tl.load(query_start_ptr + entry + 1, mask=in_entries, other=0)
    used = (end > begin) & (tl.load(row_ptr + entry, mask=in_entries, other=-1) >= 0)
    context = tl.load(start_ptr + entry, mask=in_entries, other=0) + end - begin
    tl.store(context_ptr + entry, tl.where(used, context, 0), mask=in_entries)
    tl.store(last_ptr + entry, tl.maximum(end - 1, 0), mask=in_entries)


def stage(
    rows: torch.Tensor,
    starts: torch.Tensor,
    query_starts: torch.Tensor,
    block_tables: torch.Tensor,
    block_size: int,
    num_tokens: int,
    backend: str | None = None,
) -> Staged:
    """Expand per-entry arrays into per-token metadata; nothing is read back to the host.

    Args:
        rows: (R,) int32, seat of each entry, -1 for padding.
        starts: (R,) int32, position of the entry's first token of this step.
        query_starts: (R + 1,) int32, ascending from 0.
        block_tables: (seats, max_blocks) int32, the persistent tables of all seats.
        num_tokens: T, the padded number of tokens.
    """
    if not use_triton(backend, rows):
        return stage_reference(rows, starts, query_starts, block_tables, block_size, num_tokens)
    check_rows(rows=rows, starts=starts, query_starts=query_starts, block_tables=block_tables)
    num_entries, block = rows.numel(), 128
    per_token, per_entry = rows.new_empty((3, num_tokens), dtype=torch.int32), rows.new_empty((2, num_entries))
    _stage_kernel[(triton.cdiv(max(num_tokens, num_entries), block),)](
        rows, starts, query_starts, block_tables, *per_token, *per_entry, num_entries, num_tokens,
        block_tables.stride(0), BLOCK_SIZE=block_size, HALVINGS=num_entries.bit_length(), BLOCK=block, num_warps=4,
    )  # fmt: skip
    return Staged(*per_token, *per_entry)
