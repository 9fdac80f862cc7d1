"""Slow motion: the engine takes real steps, so many a second, so that a person can follow each of them.

Between two steps the engine is paused and its clock stands still: tokens per second, milliseconds and latencies are
those of the engine, not of the slow motion.
"""

import threading
import time

from engine.driver import Driver
from engine.errors import EngineStopped

FULL_SPEED = 0


class Pacer:
    """Lets an engine run at ``steps_s`` steps a second; 0 is full speed. Every method may be called from any thread."""

    def __init__(self, steps_s: int = 10) -> None:
        self.steps_s = steps_s
        self._lock = threading.RLock()
        self._halt = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def running(self) -> bool:
        """True while steps are taken in slow motion."""
        return self._thread is not None and self._thread.is_alive() and not self._halt.is_set()

    def go(self, driver: Driver) -> None:
        """Let the engine run: at the pace if there is one, else at full speed."""
        with self._lock:
            if self.steps_s == FULL_SPEED:
                self.halt()
                driver.resume()
            elif not self.running:
                self._halt = threading.Event()
                self._thread = threading.Thread(target=self._walk, args=(driver, self._halt), name="pacer", daemon=True)
                self._thread.start()

    def halt(self) -> None:
        """Take no more steps; the engine stays paused. Returns when the step that was on its way is done."""
        with self._lock:
            self._halt.set()
            if self._thread is not None:
                self._thread.join()

    def change(self, steps_s: int, driver: Driver | None) -> None:
        """Another pace, from the next step on; ``driver``: the engine that runs now, if one does."""
        with self._lock:
            was_running = self.running
            self.steps_s = steps_s
            if driver is not None and (was_running or driver.state == "ready"):
                self.go(driver)

    def _walk(self, driver: Driver, halt: threading.Event) -> None:
        while not halt.is_set():
            began = time.monotonic()
            try:
                if driver.busy:  # a race has the engine for itself
                    break
                if not driver.step(1):
                    driver.resume()  # nothing left to do: who comes next is not kept waiting
                    break
            except EngineStopped:
                break
            halt.wait(max(0.0, 1 / max(1, self.steps_s) - (time.monotonic() - began)))
