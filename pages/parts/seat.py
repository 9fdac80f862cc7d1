"""Which tab drives the engine. One at a time; it may hand over, and loses the seat 30 s after its last sign of life."""

import threading
import time
from collections.abc import Callable

LAPSES_S = 30.0


class Seat:
    """The driver's seat, safe from any thread.

    Args:
        clock: seconds, monotonic.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._tab = ""
        self._seen = 0.0

    def take(self, tab: str) -> bool:
        """Sit down. True when the seat was free, had lapsed, or is already this tab's."""
        with self._lock:
            if self._holder() not in ("", tab):
                return False
            self._tab, self._seen = tab, self._clock()
            return True

    def heartbeat(self, tab: str) -> None:
        """The tab is still there; it keeps the seat if it has it."""
        with self._lock:
            if tab == self._holder():
                self._seen = self._clock()

    def hand_over(self, tab: str) -> None:
        """Stand up; the next tab that sends a command drives."""
        with self._lock:
            if tab == self._tab:
                self._tab = ""

    def seen_from(self, tab: str) -> str:
        """``"me"``, ``"other"`` or ``"nobody"``: who drives, as the tab sees it."""
        with self._lock:
            holder = self._holder()
        return "nobody" if not holder else "me" if holder == tab else "other"

    def _holder(self) -> str:
        return self._tab if self._clock() - self._seen < LAPSES_S else ""
