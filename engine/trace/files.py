"""A recording on disk: gzip around a header (magic, schema version) and the records as they were written.

It replays anywhere: the text of its tokens is in it (PIECES records), and no tokenizer or device is needed.
"""

import gzip
import logging
import os
import queue
import struct
import threading
import zlib
from collections.abc import Iterable
from typing import BinaryIO

from engine.trace.codec import decode, encode
from engine.trace.events import SCHEMA_VERSION, Record

log = logging.getLogger(__name__)
MAGIC = b"FLTDECK\n"
HEADER = struct.Struct("<8sI")
MAX_BYTES = 2**30  # unpacked; a file that unpacks to more was made to fill the memory


def save(path: str | os.PathLike | BinaryIO, records: Iterable[Record]) -> None:
    """Write a recording to a path or into an open file."""
    with gzip.open(path, "wb") as file:
        file.write(HEADER.pack(MAGIC, SCHEMA_VERSION))
        for record in records:
            file.write(encode(record))


def load(path: str | os.PathLike | BinaryIO) -> list[Record]:
    """The records of a recording at a path or in an open file; of a truncated one all whole records.

    Raises:
        ValueError: not a recording, written by a newer version, or larger than ``MAX_BYTES``.
    """
    if isinstance(path, str | os.PathLike):
        with open(path, "rb") as file:
            data = _inflate(file.read(), path)
    else:
        data, path = _inflate(path.read(), "the file"), "the file"
    if len(data) < HEADER.size or not data.startswith(MAGIC):
        raise ValueError(f"{path} is not a Flightdeck recording")
    _, version = HEADER.unpack_from(data)
    if version > SCHEMA_VERSION:
        raise ValueError(f"{path} has trace version {version}; this program reads up to {SCHEMA_VERSION}: update it")
    return _records(memoryview(data), path)


class FileSink:
    """Writes a recording while it runs; compressing happens in a thread of its own, not in the step loop.

    When the disk fails, ``write`` raises (a ``Recorder`` counts that) and nothing piles up.
    """

    def __init__(self, path: str | os.PathLike) -> None:
        self._file = gzip.GzipFile(path, "wb", compresslevel=6)
        self._file.write(HEADER.pack(MAGIC, SCHEMA_VERSION))
        self._error: OSError | None = None
        self._queue: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._drain, name="trace-file", daemon=True)
        self._thread.start()

    def write(self, data: bytes) -> None:
        """Queue one encoded record."""
        if self._error is not None:
            raise self._error
        self._queue.put(data)

    def close(self) -> None:
        """Write what is queued and end the file. Call it once, after the last ``write``. Raises ``OSError``."""
        self._queue.put(None)
        self._thread.join()
        self._file.close()
        if self._error is not None:
            raise self._error

    def _drain(self) -> None:
        while (data := self._queue.get()) is not None:
            try:
                self._file.write(data)
            except OSError as error:
                self._error = error


def _inflate(data: bytes, path: str | os.PathLike) -> bytes:
    inflater = zlib.decompressobj(wbits=31)
    try:
        whole = inflater.decompress(data, MAX_BYTES)
    except zlib.error as error:
        raise ValueError(f"{path} is not a Flightdeck recording ({error})") from None
    if inflater.unconsumed_tail:
        raise ValueError(f"{path} holds more than {MAX_BYTES // 2**20} MiB of records")
    return whole + inflater.flush()


def _records(data: memoryview, path: str | os.PathLike) -> list[Record]:
    records, offset = [], HEADER.size
    while offset < len(data):
        try:
            record, end = decode(data, offset)
        except struct.error:
            end = len(data) + 1
        if end > len(data):
            log.warning("%s ends inside a record (its writer was interrupted); %d records read", path, len(records))
            break
        records.append(record)
        offset = end
    return records
