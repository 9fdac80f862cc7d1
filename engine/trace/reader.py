"""Follows the ring of a live engine and keeps its runs, for all tabs of the app together."""

import os
import threading
from collections.abc import Callable

from engine.trace.codec import decode
from engine.trace.ring import RingReader
from engine.trace.timeline import Timeline, add_to_runs

RUNS_KEPT = 8


class TraceReader:
    """The records of an engine process as ``runs`` (the last one is live). Safe to use from several threads.

    Args:
        ring_path: the ring file; its writer may come later (``poll`` finds it).
        request_keyframe: called, outside of any lock, when records were lost and a KEYFRAME must be written.
    """

    def __init__(self, ring_path: str | os.PathLike, request_keyframe: Callable[[], None] | None = None) -> None:
        self.runs: list[Timeline] = []
        self._path = ring_path
        self._request_keyframe = request_keyframe
        self._ring: RingReader | None = None
        self._lock = threading.Lock()
        self._gaps_reported = 0
        self._stop = threading.Event()

    @property
    def live(self) -> Timeline | None:
        """The newest run, None before the first."""
        return self.runs[-1] if self.runs else None

    @property
    def lost(self) -> bool:
        """True while records are missing and no new beginning has come."""
        return self._ring is not None and self._ring.lost

    def poll(self) -> int:
        """Take in what was written since the last call; returns how many records."""
        with self._lock:
            data = self._read()
            for encoded in data:
                add_to_runs(self.runs, decode(memoryview(encoded))[0], encoded)
            del self.runs[:-RUNS_KEPT]
            if self.live is not None:
                self.live.keep_up()
            ask = self._ring is not None and self._ring.gaps > self._gaps_reported
            self._gaps_reported = self._ring.gaps if self._ring else 0
        if ask and self._request_keyframe:
            self._request_keyframe()
        return len(data)

    def follow(self, interval_s: float = 0.05) -> threading.Thread:
        """Poll in a daemon thread until ``close``, so that the ring never laps an unwatched app."""
        thread = threading.Thread(target=self._follow, args=(interval_s,), name="trace-reader", daemon=True)
        thread.start()
        return thread

    def close(self) -> None:
        """Stop following and unmap the ring; the runs stay readable."""
        self._stop.set()
        with self._lock:
            if self._ring:
                self._ring.close()
            self._ring = None

    def _read(self) -> list[bytes]:
        if self._ring is None and not self._stop.is_set() and os.path.exists(self._path):
            self._ring = RingReader(self._path)
        return self._ring.read_encoded() if self._ring else []

    def _follow(self, interval_s: float) -> None:
        while not self._stop.wait(interval_s):
            self.poll()
