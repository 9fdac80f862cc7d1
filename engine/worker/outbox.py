"""Brings the ids of a step to the host while the next one runs.

The device keeps the ids and the clock of the last ``SLOTS`` steps (``kernels.advance``) and counts the slots by itself,
in step with the host. A stream of its own copies a slot into pinned memory behind the step; ``poll`` asks the copy's
event and is the only place that may wait.
"""

import torch
from torch import Tensor

from engine.step import Int32
from engine.worker.inbox import SLOTS
from kernels.advance import IDS_AT, stamps_of


class Outbox:
    """The slots on the device, their pinned copies, and the events that say when a copy has arrived."""

    def __init__(self, entries: int, device: torch.device) -> None:
        width = IDS_AT + entries + entries % 2
        self.cuda = device.type == "cuda"
        self.data = torch.zeros(SLOTS, width, dtype=torch.int32, device=device)
        self.cursor = torch.zeros(1, dtype=torch.int32, device=device)
        self._next = 0
        self._slots = list(self.data)
        self._hosts = list(torch.zeros(SLOTS, width, dtype=torch.int32, pin_memory=self.cuda))
        self._ids = [host.numpy()[IDS_AT:] for host in self._hosts]
        self._stamps = [stamps_of(host).numpy() for host in self._hosts]
        if self.cuda:
            self._stream, self._steps = torch.cuda.Stream(device), torch.cuda.current_stream(device)
            self._ran = [torch.cuda.Event() for _ in range(SLOTS)]
            self._arrived = [torch.cuda.Event() for _ in range(SLOTS)]

    def rewind(self) -> None:
        """Start at slot 0 again; nothing may be in flight."""
        self.cursor.zero_()
        self._next = 0

    def claim(self) -> int:
        """The slot of the next step to be launched."""
        slot = self._next
        self._next = (slot + 1) % SLOTS
        return slot

    def write(self, slot: int, entries: Tensor | slice, ids: Tensor) -> None:
        """Put other ids in the place of those that the step left."""
        self.data[slot, IDS_AT:][entries] = ids

    def fetch(self, slot: int) -> None:
        """Queue the copy of a launched step's slot."""
        if not self.cuda:
            self._hosts[slot].copy_(self._slots[slot])
            return
        self._ran[slot].record(self._steps)
        self._stream.wait_event(self._ran[slot])
        with torch.cuda.stream(self._stream):
            self._hosts[slot].copy_(self._slots[slot], non_blocking=True)
        self._arrived[slot].record(self._stream)

    def has_arrived(self, slot: int) -> bool:
        """True when the copy is complete."""
        return not self.cuda or self._arrived[slot].query()

    def wait(self, slot: int) -> None:
        """Return when the copy is complete."""
        if self.cuda:
            self._arrived[slot].synchronize()

    def ids(self, slot: int) -> Int32:
        """The ids of an arrived step, one per entry; valid until the slot's next turn."""
        return self._ids[slot]

    def stamps(self, slot: int) -> tuple[int, int]:
        """Begin and end of an arrived step, ns of the device's clock; 0 where the device was not asked."""
        begin, end = self._stamps[slot].tolist()
        return begin, end
