"""A step as the device sees it, and the copy that brings what only admissions need."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

COPIES = 4  # host buffers: a copy is long over when its buffer's turn comes again
ALIGN = 4  # int32 numbers: sections start at 16 bytes, so that kernels are compiled for one alignment only


class Shape(NamedTuple):
    """How large a step is, padding included: what a CUDA graph is captured for."""

    tokens: int  # T
    entries: int  # R
    max_query_len: int  # tokens of the longest entry, or more; 1: every entry decodes
    filtered: bool = False  # whether top-k, top-p and min-p are applied


@dataclass(slots=True)
class Entries:
    """The scheduled rows of a step on the device, all int32. A padded entry has row -1."""

    rows: Tensor  # [R], seat
    starts: Tensor  # [R], position of the first token of this step
    samples: Tensor  # [R], not 0 where the last token gives the next one
    query_starts: Tensor  # [R + 1], tokens of entry i are query_starts[i] .. query_starts[i + 1]
    shape: Shape


@dataclass(slots=True)
class StepBatch:
    """What layers and sampler read: T packed tokens of R entries, int32 unless noted."""

    rows: Tensor  # [R], -1 for padding
    token_ids: Tensor  # [T]
    positions: Tensor  # [T]
    slots: Tensor  # [T], below 0: written nowhere
    block_tables: Tensor  # [R, at least the blocks of the longest row]
    query_starts: Tensor  # [R + 1]
    context_lens: Tensor  # [R], this step's tokens included, 0 for padding
    last: Tensor  # [R], the last token of each entry
    max_query_len: int
    filtered: bool
    temperature: Tensor  # fp32 [R]
    seeds: Tensor  # int64 [R]
    backend: str


class Staging:
    """Packs integers of any length into one pinned buffer and sends it with one asynchronous copy.

    Host buffers are used round-robin, each guarded by the event of its last copy: a step in flight is never
    overwritten. On a CPU the packed array is used where it is.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._pinned = device.type == "cuda"
        self._hosts: list[Tensor] = [self._empty(1024) for _ in range(COPIES)]
        self._events: list[torch.cuda.Event | None] = [None] * COPIES
        self._next = 0

    def send(self, arrays: Sequence[NDArray[np.int32] | list[int]]) -> list[Tensor]:
        """Device views of ``arrays``, in order. On a CPU they are overwritten ``COPIES`` sends later."""
        offsets, total = [], 0
        for array in arrays:
            offsets.append(total)
            total += (len(array) + ALIGN - 1) // ALIGN * ALIGN
        packed = self._claim(total)
        view = packed.numpy()
        for offset, array in zip(offsets, arrays):
            view[offset : offset + len(array)] = array
        sent = self._transfer(packed[:total])
        return [sent[offset : offset + len(array)] for offset, array in zip(offsets, arrays)]

    def _claim(self, size: int) -> Tensor:
        """The next host buffer, once its last copy is over, grown when it is too small."""
        self._next = (self._next + 1) % len(self._hosts)
        event = self._events[self._next]
        if event is not None:
            event.synchronize()
        if self._hosts[self._next].numel() < size:
            self._hosts[self._next] = self._empty(2 * size)
        return self._hosts[self._next]

    def _transfer(self, packed: Tensor) -> Tensor:
        if not self._pinned:
            return packed
        sent = packed.to(self.device, non_blocking=True)
        event = self._events[self._next] or torch.cuda.Event()
        event.record()
        self._events[self._next] = event
        return sent

    def _empty(self, size: int) -> Tensor:
        return torch.empty(size, dtype=torch.int32, pin_memory=self._pinned)
