"""Writes events into sinks: stamps each with its place, never raises into the step loop.

A *sink* is anything with ``write(data: bytes)``: a ``RingWriter`` (shared with the app process), a ``FileSink`` (a
recording on disk) or a ``ListSink`` (this process).
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from engine.trace.codec import decode, encode
from engine.trace.events import Event, Kind, Pieces, Record

log = logging.getLogger(__name__)


class Sink(Protocol):
    """Takes encoded records, one call each."""

    def write(self, data: bytes) -> None:
        """Keep or forward one encoded record."""


class ListSink:
    """Keeps the records of this process, encoded (an event object may be reused by its writer)."""

    def __init__(self) -> None:
        self.data: list[bytes] = []

    def write(self, data: bytes) -> None:
        """Keep one encoded record."""
        self.data.append(data)

    @property
    def records(self) -> list[Record]:
        """All records so far, decoded."""
        return [decode(memoryview(data))[0] for data in self.data]


class Recorder:
    """Stamps events with seq, engine time and step, and hands the bytes to every sink.

    A failing sink or event is counted in ``failures`` and logged once per kind; its seq stays missing, so a reader can
    tell that the trace has a hole.

    Args:
        sinks: where records go.
        clock: engine time in ns (it stands still while paused).
        piece_bytes: text of a token id, for ``emit_pieces``; without it no text is recorded.
    """

    def __init__(
        self,
        sinks: Iterable[Sink],
        clock: Callable[[], int] = time.perf_counter_ns,
        piece_bytes: Callable[[int], bytes] | None = None,
    ) -> None:
        self.sinks = list(sinks)
        self.seq = 0
        self.step = 0
        self.failures = 0
        self._clock = clock
        self._piece_bytes = piece_bytes
        self._seen: set[int] = set()
        self._logged: set[str] = set()
        self._lock = threading.Lock()

    def emit(self, event: Event) -> None:
        """Record one event. Never raises. Without a sink nothing is done."""
        if not self.sinks:
            return
        with self._lock:
            kind = event.KIND
            if kind is Kind.STEP:
                self.step += 1
            elif kind is Kind.RUN or kind is Kind.KEYFRAME:
                self._restart(kind)
            seq = self.seq
            self.seq = seq + 1
            try:
                data = encode(Record(seq, self._clock(), self.step, event))
                for sink in self.sinks:
                    sink.write(data)
            except Exception as error:
                self._failed(kind.name, error)

    def emit_pieces(self, token_ids: Sequence[int]) -> None:
        """Record the text of the ids that this run has not shown yet (call before the event that uses them)."""
        if self._piece_bytes is None or self._seen.issuperset(token_ids):
            return
        try:
            fresh = sorted(set(token_ids) - self._seen)
            texts = [self._piece_bytes(token) for token in fresh]
        except Exception as error:
            self._failed("PIECES", error)
            return
        self.emit(Pieces(fresh, [len(text) for text in texts], b"".join(texts)))
        self._seen.update(fresh)

    def _restart(self, kind: Kind) -> None:
        # A reader that begins here has seen no text yet.
        self._seen.clear()
        if kind is Kind.RUN:
            self.step = 0

    def _failed(self, what: str, error: Exception) -> None:
        self.failures += 1
        if what not in self._logged:
            self._logged.add(what)
            log.error("recording %s failed (counted, not raised): %s", what, error)


def null_emit(event: Event) -> None:
    """The ``emit`` of an engine that records nothing."""
