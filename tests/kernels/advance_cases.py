"""What a step does to the rows before and after its layers, run by every backend (fixture ``target``)."""

import pytest
import torch

from kernels.advance import CHANGES_AT, IDS_AT, close_step, open_step, stamps_of


def ints(target, *values):
    return torch.tensor(*values, dtype=torch.int32, device=target.device)


def desk(target, entries=4, slots=3):
    """An outbox, its cursor at the last slot, and a table of three seats and nobody's row."""
    outbox = torch.full((slots, IDS_AT + entries + entries % 2), -9, dtype=torch.int32, device=target.device)
    tables = ints(target, [[10 * seat + place for place in range(5)] for seat in range(4)])
    return outbox, ints(target, [slots - 1]), tables


@pytest.mark.parametrize("count", (0, 1, 2, 300))
def test_open_step_writes_the_changes_that_count(target, count):
    """Only so many changes as the first word says; words behind them are left over from an earlier step."""
    outbox, cursor, tables = desk(target)
    listed = [(index % 3, index // 3 % 5, 500 + index % 15) for index in range(count)] + [(1, 1, -1)] * 3
    changes = ints(target, [count, 7, 7, 7, *(number for change in listed for number in change)])
    expected = tables.clone()
    for seat, place, block in listed[:count]:
        expected[seat, place] = block
    open_step(changes, tables, outbox, cursor, backend=target.backend)
    assert torch.equal(tables[:3], expected[:3])  # the last row is nobody's
    assert cursor.tolist() == [2] and (outbox[:2] == -9).all()


def test_close_step_hands_on_what_was_chosen(target):
    """A decode row, a chunk that ends its prompt, one that does not, and padding. Guards a prompt token overwritten by
    a chunk that does not sample, and a padding entry that writes into a real row."""
    rows, samples = ints(target, [2, 0, 1, -1]), ints(target, [1, 1, 0, 1])
    starts, query_starts = ints(target, [4, 0, 2, 3]), ints(target, [0, 1, 4, 6, 6])
    tokens = torch.zeros(4, 8, dtype=torch.int32, device=target.device)
    (outbox, cursor, _), changes = desk(target), ints(target, [5] * CHANGES_AT)
    ids = ints(target, [71, 72, 73, 74])
    close_step(ids, rows, starts, query_starts, samples, tokens, changes, outbox, cursor, backend=target.backend)
    expected = torch.zeros(3, 8, dtype=torch.int32)
    expected[2, 5], expected[0, 3] = 71, 72
    assert torch.equal(tokens[:3].cpu(), expected)
    assert starts.tolist() == [5, 3, 4, 3]
    assert outbox[2, IDS_AT:].tolist() == [71, 72, 73, 74] and (outbox[:2] == -9).all()
    assert cursor.tolist() == [0] and changes[0] == 0


def test_many_entries_advance_in_one_step(target):
    """More entries than one pass of the program takes; two steps in a row go to two slots."""
    count = 700
    rows = torch.randperm(count).int().to(target.device)
    starts, query_starts = torch.full_like(rows, 3), torch.arange(count + 1).int().to(target.device)
    tokens = torch.zeros(count + 1, 6, dtype=torch.int32, device=target.device)
    (outbox, cursor, tables), changes = desk(target, count), ints(target, [0] * CHANGES_AT)
    for step in (1, 2):
        open_step(changes, tables, outbox, cursor, backend=target.backend)
        arguments = rows * step, rows, starts, query_starts, torch.ones_like(rows), tokens, changes, outbox, cursor
        close_step(*arguments, backend=target.backend)
    assert torch.equal(tokens[:count, 4], torch.arange(count).int().to(target.device))
    assert torch.equal(tokens[:count, 5], 2 * torch.arange(count).int().to(target.device))
    assert torch.equal(outbox[2, IDS_AT:], rows) and torch.equal(outbox[0, IDS_AT:], rows * 2)
    assert starts.tolist() == [5] * count and cursor.tolist() == [1]
    if target.device == "cuda":
        begin, end, second_begin, _ = (*stamps_of(outbox[2]).tolist(), *stamps_of(outbox[0]).tolist())
        assert 0 < begin <= end <= second_begin
