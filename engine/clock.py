"""The engine's clock: nanoseconds since it was made, standing still while paused."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Clock:
    """Monotonic time in ns that can stand still, so that a pause never shows in a latency.

    Args:
        source: where real time comes from (tests and the simulator bring their own).
    """

    def __init__(self, source: Callable[[], int] = time.perf_counter_ns) -> None:
        self._source = source
        self._offset = source()
        self._stopped_at: int | None = None

    def __call__(self) -> int:
        """Nanoseconds of running time."""
        if self._stopped_at is not None:
            return self._stopped_at
        return self._source() - self._offset

    def stop(self) -> None:
        """Stand still from now on. Nothing happens when it stands already."""
        self._stopped_at = self()

    @contextmanager
    def held(self) -> Iterator[int]:
        """The time now, the same for everybody inside; afterwards it is where it would have been."""
        stopped, self._stopped_at = self._stopped_at, self()
        try:
            yield self._stopped_at
        finally:
            self._stopped_at = stopped

    def start(self) -> None:
        """Go on from where it stopped. Nothing happens when it runs already."""
        if self._stopped_at is not None:
            self._offset = self._source() - self._stopped_at
            self._stopped_at = None
