"""The binary form of a record.

A head (seq u64, t_ns u64, step u32, kind u8, flags u8, count u16, length u32), then a payload of little-endian scalars
and arrays as the annotations of ``events`` say. Schema 1 leaves flags and count at 0.
"""

import struct
from collections.abc import Callable
from dataclasses import fields
from operator import attrgetter
from typing import get_type_hints

from engine.trace.events import EVENT_TYPES, Event, Record

HEAD = struct.Struct("<QQIBBHI")


class _Codec:
    """Packs the fields of one event type: all scalars, then the u32 length of each array, then the arrays."""

    def __init__(self, event_type: type) -> None:
        hints = get_type_hints(event_type, include_extras=True)
        formats = [(f.name, hints[f.name].__metadata__[0]) for f in fields(event_type)]
        arrays = [(name, code[0]) for name, code in formats if code.endswith("*")]
        scalars = [(name, code) for name, code in formats if not code.endswith("*")]
        self.type = event_type
        self.names = [name for name, _ in scalars + arrays]
        self.codes = [code for _, code in arrays]
        self.scalars = _getter([name for name, _ in scalars])
        self.arrays = _getter([name for name, _ in arrays])
        self.num_scalars = len(scalars)
        self.head = struct.Struct("<" + "".join(code for _, code in scalars) + "I" * len(arrays))

    def encode(self, event: Event) -> bytes:
        arrays = self.arrays(event)
        parts = [self.head.pack(*self.scalars(event), *map(len, arrays))]
        for code, values in zip(self.codes, arrays):
            if values:
                # struct keeps the last hundred formats compiled; faster than array(code, values).
                parts.append(values if code == "B" else struct.pack(f"<{len(values)}{code}", *values))
        return b"".join(parts)

    def decode(self, data: memoryview) -> Event:
        values = self.head.unpack_from(data)
        scalars, lengths = values[: self.num_scalars], values[self.num_scalars :]
        arrays, offset = [], self.head.size
        for code, count in zip(self.codes, lengths):
            if code == "B":
                arrays.append(data[offset : offset + count].tobytes())
            else:
                arrays.append(list(struct.unpack_from(f"<{count}{code}", data, offset)))
            offset += count * _ITEM_SIZES[code]
        return self.type(**dict(zip(self.names, (*scalars, *arrays))))


def _getter(names: list[str]) -> Callable[[Event], tuple]:
    """All named attributes of an event at once, as a tuple."""
    if len(names) < 2:
        return lambda event: tuple(getattr(event, name) for name in names)
    return attrgetter(*names)


_ITEM_SIZES = {code: struct.calcsize(f"<{code}") for code in "BHi"}
_CODECS = {event_type.KIND: _Codec(event_type) for event_type in EVENT_TYPES}


def encode(record: Record) -> bytes:
    """The binary form of a record."""
    payload = _CODECS[record.event.KIND].encode(record.event)
    return HEAD.pack(record.seq, record.t_ns, record.step, record.event.KIND, 0, 0, len(payload)) + payload


def decode(data: memoryview, offset: int = 0) -> tuple[Record, int]:
    """The record at ``offset`` and the offset behind it. Raises ``ValueError`` for an unknown kind."""
    seq, t_ns, step, kind, _flags, _count, length = HEAD.unpack_from(data, offset)
    if kind not in _CODECS:
        raise ValueError(f"unknown record kind {kind}: written by a newer version?")
    start = offset + HEAD.size
    return Record(seq, t_ns, step, _CODECS[kind].decode(data[start : start + length])), start + length
