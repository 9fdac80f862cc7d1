"""Step metadata built on the device, so that the host sends only a few integers per row.

Entry i of a step is a row (its seat ``rows[i]``), that computes the tokens ``query_starts[i] .. query_starts[i+1]`` of
the flat batch at positions ``starts[i] ..``. Each token needs its position, its cache slot (through the row's block
table), its seat and its id (``tokens[seat, position]``); each entry needs the index of its last token, whose logits
give the next one, and what its seat keeps: block table, temperature and seed. Padding: entries with seat -1 and tokens
past ``query_starts[R]`` get position 0, slot -1, seat -1, id 0, and zeros from no seat.
"""

from typing import NamedTuple

import torch

from kernels.backend import check_rows, jit, tl, triton, use_triton


class Staged(NamedTuple):
    """Per token: ``positions``, ``slots``, ``seats``, ``token_ids`` (T,). Per entry: ``context_lens``, ``last`` (R,).
    All int32."""

    positions: torch.Tensor
    slots: torch.Tensor
    seats: torch.Tensor
    token_ids: torch.Tensor
    context_lens: torch.Tensor
    last: torch.Tensor


class Seated(NamedTuple):
    """Per entry, from its seat: ``tables`` (R, width) int32, ``temperature`` (R,) fp32, ``seeds`` (R,) int64."""

    tables: torch.Tensor
    temperature: torch.Tensor
    seeds: torch.Tensor


def stage_reference(
    rows: torch.Tensor,
    starts: torch.Tensor,
    query_starts: torch.Tensor,
    block_tables: torch.Tensor,
    tokens: torch.Tensor,
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
    token_ids = torch.where(seats < 0, 0, tokens[seats.clamp(min=0), positions])
    lengths = query_starts.diff()
    context_lens = torch.where((rows >= 0) & (lengths > 0), starts + lengths, 0)
    last = (query_starts[1:] - 1).clamp_(min=0)
    return Staged(positions, slots, seats, token_ids, context_lens, last)


def fetch_seats_reference(
    rows: torch.Tensor, block_tables: torch.Tensor, temperature: torch.Tensor, seeds: torch.Tensor, width: int
) -> Seated:
    """What ``fetch_seats`` computes, in plain PyTorch."""
    seat, real = rows.clamp(min=0), rows >= 0
    return Seated(block_tables[seat, :width] * real.unsqueeze(1), temperature[seat] * real, seeds[seat] * real)


@jit
def _stage_kernel(
    row_ptr, start_ptr, query_start_ptr, table_ptr, token_ptr,
    position_ptr, slot_ptr, seat_ptr, id_ptr, context_ptr, last_ptr,
    num_entries, num_tokens, table_stride, token_stride,
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
    known = tl.load(token_ptr + seat.to(tl.int64) * token_stride + position, mask=real, other=0)
    tl.store(id_ptr + token, known, mask=in_tokens)

    entry = token
    in_entries = entry < num_entries
    begin = tl.load(query_start_ptr + entry, mask=in_entries, other=0)
    end = tl.load(query_start_ptr + entry + 1, mask=in_entries, other=0)
    used = (end > begin) & (tl.load(row_ptr + entry, mask=in_entries, other=-1) >= 0)
    context = tl.load(start_ptr + entry, mask=in_entries, other=0) + end - begin
    tl.store(context_ptr + entry, tl.where(used, context, 0), mask=in_entries)
    tl.store(last_ptr + entry, tl.maximum(end - 1, 0), mask=in_entries)


@jit
def _fetch_kernel(
    row_ptr, table_ptr, temperature_ptr, seed_ptr, out_table_ptr, out_temperature_ptr, out_seed_ptr,
    width, table_stride, out_stride, BLOCK: tl.constexpr,
):  # fmt: skip
    """BLOCK blocks of the table of one entry per program; each also fetches the two numbers."""
    entry, place = tl.program_id(0), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    seat = tl.load(row_ptr + entry).to(tl.int64)
    block = tl.load(table_ptr + seat * table_stride + place, mask=(place < width) & (seat >= 0), other=0)
    tl.store(out_table_ptr + entry.to(tl.int64) * out_stride + place, block, mask=place < width)
    tl.store(out_temperature_ptr + entry, tl.load(temperature_ptr + seat, mask=seat >= 0, other=0.0))
    tl.store(out_seed_ptr + entry, tl.load(seed_ptr + seat, mask=seat >= 0, other=0))


def stage(
    rows: torch.Tensor,
    starts: torch.Tensor,
    query_starts: torch.Tensor,
    block_tables: torch.Tensor,
    tokens: torch.Tensor,
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
        tokens: (seats, positions) int32, the persistent tokens of all seats.
        num_tokens: T, the padded number of tokens.
    """
    if not use_triton(backend, rows):
        return stage_reference(rows, starts, query_starts, block_tables, tokens, block_size, num_tokens)
    check_rows(rows=rows, starts=starts, query_starts=query_starts, block_tables=block_tables, tokens=tokens)
    num_entries, block = rows.numel(), 128
    per_token, per_entry = rows.new_empty((4, num_tokens), dtype=torch.int32), rows.new_empty((2, num_entries))
    _stage_kernel[(triton.cdiv(max(num_tokens, num_entries), block),)](
        rows, starts, query_starts, block_tables, tokens, *per_token, *per_entry, num_entries, num_tokens,
        block_tables.stride(0), tokens.stride(0),
        BLOCK_SIZE=block_size, HALVINGS=num_entries.bit_length(), BLOCK=block, num_warps=4,
    )  # fmt: skip
    return Staged(*per_token, *per_entry)


def fetch_seats(
    rows: torch.Tensor,
    block_tables: torch.Tensor,
    temperature: torch.Tensor,
    seeds: torch.Tensor,
    width: int,
    backend: str | None = None,
) -> Seated:
    """What the seats of a step's entries keep, in the entries' order.

    Args:
        rows: (R,) int32, seat of each entry, -1 for padding.
        block_tables: (seats, max_blocks) int32.
        temperature, seeds: (seats,) fp32 and int64.
        width: blocks of a table that are wanted.
    """
    if not use_triton(backend, rows):
        return fetch_seats_reference(rows, block_tables, temperature, seeds, width)
    check_rows(rows=rows, block_tables=block_tables, temperature=temperature, seeds=seeds)
    count, block = rows.numel(), 256
    found = Seated(rows.new_empty((count, width)), temperature.new_empty(count), seeds.new_empty(count))
    _fetch_kernel[(count, triton.cdiv(width, block))](
        rows, block_tables, temperature, seeds, *found, width, block_tables.stride(0), width,
        BLOCK=block, num_warps=4,
    )  # fmt: skip
    return found
