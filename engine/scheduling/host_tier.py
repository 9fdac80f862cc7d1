"""The second tier of the prefix cache: host memory for content that the pool evicts.

    pool  --evicted: copied out-->  host slots, least recently evicted first  --hit at admission: copied in-->  pool
                                         '--no slot left: the oldest content is lost

A content is in the pool or in the host, never in both for longer than a step: a hit empties its slot, and what the pool
computes again is dropped here. So both tiers together hold as many different blocks as they have places. A preempted
request needs nothing of its own: its full blocks are evicted like all others, and hit when it is resumed.

Decisions are made in ``schedule`` and carried out by the step that it returns, before that step writes any KV: first
all copies out, then all copies in, each in the order decided. Therefore

* a block may be copied out, and be the target of a copy in or get a new owner, in one step;
* a content may go out and come back in one step;
* a slot whose content is on its way into the pool gets no other content before the next step.

A launch that fails copies nothing. What comes in counts as scheduled at once, but as computed only when the step that
carries it has been applied, so a failed one makes nothing addressable; what steps in flight bring here is forgotten
when a request ends by an error, whichever of them failed.
"""

from collections import OrderedDict, deque
from collections.abc import Iterable

import numpy as np

from engine.step import NO_COPIES, Int32
from engine.trace.events import KV, Op


class HostTier:
    """Slots 0..num_slots-1 of one block each, found by content. All operations are O(1) per block."""

    def __init__(self, num_slots: int) -> None:
        self.num_slots = num_slots
        self._slot_of: OrderedDict[bytes, int] = OrderedDict()  # evicted from the pool longest ago first
        self._free = list(range(num_slots - 1, -1, -1))  # the last one is given first
        self._leaving: list[int] = []  # slots that this step reads
        self._going_out: dict[int, int] = {}  # slot -> block, not recorded yet
        self._records: list[KV] = []
        self._copy_out: list[int] = []
        self._copy_in: list[int] = []
        self._put: list[bytes] = []  # in this step
        self._in_flight: deque[list[bytes]] = deque()  # what each launched step puts here, the oldest step first

    def __contains__(self, content: bytes) -> bool:
        return content in self._slot_of

    def put(self, content: bytes, block: int) -> None:
        """Keep the content of ``block``, which is about to be overwritten, unless it is here already."""
        if content in self._slot_of:
            return
        if not self._free:
            if not self._slot_of:  # this step reads every slot
                return
            self._free.append(self._slot_of.popitem(last=False)[1])
        slot = self._slot_of[content] = self._free.pop()
        self._going_out.pop(slot, None)
        self._going_out[slot] = block
        self._put.append(content)

    def claim(self, content: bytes) -> int:
        """The slot of a content that is about to be copied in. Here it is not found any more."""
        slot = self._slot_of.pop(content)
        self._leaving.append(slot)
        return slot

    def copy_in(self, slots: Iterable[int], blocks: Iterable[int]) -> None:
        """The claimed ``slots`` are copied into these ``blocks``."""
        pairs = [number for pair in zip(slots, blocks) for number in pair]
        self._record_copies_out()
        self._copy_in += pairs
        self._records.append(KV(Op.SWAP_IN, pairs))

    def drop(self, contents: Iterable[bytes]) -> None:
        """Give up those of ``contents`` that are here."""
        slots = [self._slot_of.pop(content) for content in contents if content in self._slot_of]
        if slots:
            self._free += slots
            self._record_copies_out()
            self._records.append(KV(Op.SWAP_DROP, slots))

    def doubt(self) -> None:
        """A launch may have failed: give up what the steps in flight were to bring."""
        for contents in self._in_flight:
            self.drop(contents)
            contents.clear()

    def forget_all(self) -> None:
        """Everything is dropped, which the record of the reset says. Not while a step is planned."""
        self._free += self._slot_of.values()
        self._slot_of.clear()
        for contents in self._in_flight:
            contents.clear()

    def records(self) -> list[KV]:
        """What happened since the last call, for the trace."""
        self._record_copies_out()
        records, self._records = self._records, []
        return records

    def launch(self) -> tuple[Int32, Int32]:
        """``copy_out`` and ``copy_in`` of the step that is launched now; the slots it reads are free from here on."""
        self._free += self._leaving
        self._in_flight.append(self._put)
        copies = _array(self._copy_out), _array(self._copy_in)
        self._leaving, self._put, self._copy_out, self._copy_in = [], [], [], []
        return copies

    def applied(self) -> None:
        """The results of the oldest step in flight are there, so its copies are."""
        self._in_flight.popleft()

    def held(self) -> list[int]:
        """Slots with content, in the order in which they would be given to other content."""
        return list(self._slot_of.values())

    def check_integrity(self) -> None:
        """Every slot is free or holds one content. Raises ``RuntimeError``. Not while a step is planned."""
        slots = sorted([*self._free, *self._slot_of.values()])
        if slots != list(range(self.num_slots)):
            raise RuntimeError(f"of {self.num_slots} host slots these are free or hold content: {slots}")

    def _record_copies_out(self) -> None:
        if self._going_out:
            pairs = [number for slot, block in self._going_out.items() for number in (block, slot)]
            self._copy_out += pairs
            self._records.append(KV(Op.SWAP_OUT, pairs))
            self._going_out = {}


def _array(numbers: list[int]) -> Int32:
    return np.array(numbers, np.int32) if numbers else NO_COPIES
