"""The integers of a step at fixed places on the device: what a CUDA graph reads.

    | rows | starts | samples | query_starts | number of changes | seat, place, block | seat, place, block | ...
      written when other rows run than before        written when a block table grows

In steady decode the same rows run as in the step before, one token further: ``starts`` have moved on by themselves
(``kernels.advance``), so at most the tail is sent, and nothing at all while no table grows. A buffer of the host is
used again ``SLOTS`` steps later; the worker never has as many in flight.
"""

import numpy as np
import torch
from numpy.typing import NDArray

from engine.step import Int32, StepInput
from engine.worker.step_batch import ALIGN, Entries, Shape
from kernels.advance import CHANGE_WORDS, CHANGES_AT

SLOTS = 16  # steps that may be on their way at once: more than SchedulingConfig.steps_in_flight allows


class Inbox:
    """Device buffers of one step, pinned host copies in turn, and what the host knows of their content.

    Args:
        entries: the most entries of a step, padding included.
        changes: the most changes of block tables that one step brings.
    """

    def __init__(self, entries: int, changes: int, device: torch.device) -> None:
        self.capacity, self._width = changes, _aligned(entries + 1)
        self._tail = 4 * self._width
        size = self._tail + CHANGES_AT + CHANGE_WORDS * changes
        pinned = device.type == "cuda"
        self.data = torch.zeros(size, dtype=torch.int32, device=device)
        self.changes = self.data[self._tail :]
        self._hosts = [torch.zeros(size, dtype=torch.int32, pin_memory=pinned) for _ in range(SLOTS)]
        self._views = [host.numpy() for host in self._hosts]
        self._steady: _Steady | None = None

    def entries(self, shape: Shape) -> Entries:
        """The device's buffers, as long as ``shape`` says."""
        rows, starts, samples, query_starts = (self.data[i * self._width :] for i in range(4))
        count = shape.entries
        return Entries(rows[:count], starts[:count], samples[:count], query_starts[: count + 1], shape)

    def forget(self) -> None:
        """The next step is sent whole."""
        self._steady = None

    def send_if_steady(self, step: StepInput) -> Shape | None:
        """The shape of ``step`` when the device knows its entries already; then only changes are to be sent."""
        steady = self._steady
        if steady is None or step.admits or not steady.goes_on_with(step):
            self._steady = None
            return None
        steady.starts += 1
        return steady.shape

    def send(self, slot: int, step: StepInput, shape: Shape, changes: Int32) -> None:
        """Send a whole step, padded to ``shape``. ``changes``: int32 [n, 3], n at most ``capacity``."""
        view, width, count = self._views[slot], self._width, step.rows.size
        sections = view[: self._tail].reshape(4, width)
        sections[:3, count : shape.entries] = 0
        sections[0, count : shape.entries] = -1
        sections[0, :count], sections[1, :count], sections[2, :count] = step.rows, step.starts, step.samples
        sections[3, 0] = 0
        np.cumsum(step.num_tokens, out=sections[3, 1 : count + 1])
        sections[3, count + 1 : shape.entries + 1] = sections[3, count]
        self._copy(slot, 0, self._write(view, changes))
        if shape.max_query_len == 1 and step.samples.all():
            self._steady = _Steady(shape, step)

    def send_changes(self, slot: int, changes: Int32) -> None:
        """Send only what block tables gain."""
        self._copy(slot, self._tail, self._write(self._views[slot], changes))

    def _write(self, view: Int32, changes: Int32) -> int:
        """Write the tail; return where it ends."""
        first = self._tail + CHANGES_AT
        end = first + changes.size
        view[self._tail] = len(changes)
        view[first:end] = changes.reshape(-1)
        return end

    def _copy(self, slot: int, start: int, end: int) -> None:
        self.data[start:end].copy_(self._hosts[slot][start:end], non_blocking=True)


class _Steady:
    """The decode step that the device would run next if nobody came, left or sat out."""

    __slots__ = ("lengths", "rows", "samples", "shape", "starts")

    def __init__(self, shape: Shape, step: StepInput) -> None:
        self.shape, self.rows, self.starts = shape, step.rows, step.starts + 1
        self.lengths, self.samples = step.num_tokens, step.samples

    def goes_on_with(self, step: StepInput) -> bool:
        """Whether ``step`` is that step: same rows in the same order, one token each, all of them sampling."""
        return (
            _same(self.rows, step.rows)
            and _same(self.lengths, step.num_tokens)
            and _same(self.samples, step.samples)
            and _same(self.starts, step.starts)
        )


def _same(one: NDArray[np.int32], other: NDArray[np.int32]) -> bool:
    return one is other or one.tobytes() == other.tobytes()


def _aligned(size: int) -> int:
    return (size + ALIGN - 1) // ALIGN * ALIGN
