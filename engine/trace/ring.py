"""A ring of encoded records in a memory-mapped file: one writer that never waits, any number of readers.

File layout (native u64 words in the first page, then the ring)::

    0 magic | 1 capacity | 2 reserved | 3 written | ... 4096: data, record k at its running byte offset modulo capacity

The writer first raises ``reserved``, copies the bytes, then raises ``written``. A reader copies what lies between its
own offset and ``written`` and keeps the copy only if ``reserved`` still is within one capacity of where it began;
otherwise the bytes may have been overwritten while it copied. A temporary file, because an attached
``shared_memory`` is unlinked by the first reader that exits (Python < 3.13).
"""

import mmap
import os
from pathlib import Path

from engine.trace.codec import HEAD, decode
from engine.trace.events import Kind, Record

MAGIC = int.from_bytes(b"FLTDECK1", "little")
HEADER_BYTES = 4096
CAPACITY = 32 << 20
_MAGIC, _CAPACITY, _RESERVED, _WRITTEN = range(4)
_KIND_AT, _LENGTH_AT = 20, 24  # offsets of kind (u8) and length (u32) in HEAD


class RingWriter:
    """The writing end, a sink of ``Recorder``. Creates (or empties) ``path``; ``capacity`` in bytes."""

    def __init__(self, path: str | os.PathLike, capacity: int = CAPACITY) -> None:
        self.path, self.capacity = Path(path), capacity
        with open(path, "w+b") as file:
            file.truncate(HEADER_BYTES + capacity)
            self._map = mmap.mmap(file.fileno(), HEADER_BYTES + capacity)
        # Whole-word stores: struct.pack_into would write a "<Q" byte by byte, and a reader could see half of it.
        self._words = memoryview(self._map)[:HEADER_BYTES].cast("Q")
        self._words[_CAPACITY] = capacity
        self._words[_MAGIC] = MAGIC
        self._written = 0

    def write(self, data: bytes) -> None:
        """Append one encoded record; overwrites the oldest. Raises ``ValueError`` when it exceeds the ring."""
        size = len(data)
        if size > self.capacity:
            raise ValueError(f"a record of {size} bytes exceeds the ring of {self.capacity} bytes")
        self._words[_RESERVED] = end = self._written + size
        at = self._written % self.capacity
        first = min(size, self.capacity - at)
        start = HEADER_BYTES + at
        self._map[start : start + first] = data[:first]
        if first < size:
            self._map[HEADER_BYTES : HEADER_BYTES + size - first] = data[first:]
        self._words[_WRITTEN] = self._written = end

    def close(self) -> None:
        """Unmap; the file stays for its readers."""
        self._words.release()
        self._map.close()


class RingReader:
    """A reading end with its own offset. Raises ``ValueError`` when ``path`` is not a ring.

    ``lost`` is True from the moment a gap is seen until a RUN or KEYFRAME record gives a new beginning; records in
    between cannot be folded and are withheld. ``gaps`` counts how often that happened.
    """

    def __init__(self, path: str | os.PathLike) -> None:
        with open(path, "rb") as file:
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self._words = memoryview(self._map)[:HEADER_BYTES].cast("Q")
        if self._words[_MAGIC] != MAGIC:
            raise ValueError(f"{path} is not a Flightdeck ring")
        self._capacity = self._words[_CAPACITY]
        self._offset = 0
        self.lost = False
        self.gaps = 0

    def read(self) -> list[Record]:
        """The records since the last call, oldest first."""
        return [decode(memoryview(data))[0] for data in self.read_encoded()]

    def read_encoded(self) -> list[bytes]:
        """As ``read``, still encoded."""
        data = self._copy_new()
        if data is None:
            self.lost = True
            self.gaps += 1
            # ``written`` always is the beginning of a record.
            self._offset = self._words[_WRITTEN]
            return []
        self._offset += len(data)
        records = _cut(data)
        return self._after_gap(records) if self.lost else records

    def close(self) -> None:
        """Unmap."""
        self._words.release()
        self._map.close()

    def _copy_new(self) -> bytes | None:
        end = self._words[_WRITTEN]
        size = end - self._offset
        if size > self._capacity:
            return None
        at = self._offset % self._capacity
        first = min(size, self._capacity - at)
        start = HEADER_BYTES + at
        data = self._map[start : start + first] + self._map[HEADER_BYTES : HEADER_BYTES + size - first]
        overwritten = self._words[_RESERVED] - self._offset > self._capacity
        return None if overwritten else data

    def _after_gap(self, records: list[bytes]) -> list[bytes]:
        for i, data in enumerate(records):
            if data[_KIND_AT] in (Kind.RUN, Kind.KEYFRAME):
                self.lost = False
                return records[i:]
        return []


def _cut(data: bytes) -> list[bytes]:
    records, offset = [], 0
    while offset < len(data):
        end = offset + HEAD.size + int.from_bytes(data[offset + _LENGTH_AT : offset + _LENGTH_AT + 4], "little")
        records.append(data[offset:end])
        offset = end
    return records
