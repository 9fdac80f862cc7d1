"""The one engine of this server. All tabs and routes share it; however many open at once, it is built once.

Nothing here waits for the engine: starting returns at once, and ``status`` says in words what it is doing.
"""

import atexit
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from engine.config import EngineConfig
from engine.driver import Driver
from engine.errors import EngineStopped
from engine.trace.timeline import Timeline
from pages.parts.pacer import Pacer

PHASES = {"starting": "starting", "ready": "ready", "paused": "ready", "failed": "dead", "stopped": "off"}


@dataclass(frozen=True, slots=True)
class Status:
    """How the engine is. ``phase``: off, starting, ready or dead; ``words``: what it waits for, or why it ended."""

    phase: str = "off"
    words: str = ""
    progress: float = 0.0
    since_s: float = 0.0
    paused: bool = False
    busy: str = ""  # which job has the engine for itself


class Session:
    """Owns the driver. Every method may be called from any thread.

    Args:
        make: builds a driver from a configuration (a test passes another one).
    """

    def __init__(self, make: Callable[[EngineConfig], Driver] = Driver) -> None:
        self._make, self._lock, self._building = make, threading.RLock(), threading.Lock()
        self._driver: Driver | None = None
        self._launch: threading.Thread | None = None
        self._failure = ""
        self._started_s = time.monotonic()
        self.config = EngineConfig()
        self.notice = ""  # the last failure of work that nobody waited for
        self.pacer = Pacer()

    def driver(self) -> Driver:
        """The driver, built at the first call (which reads the tokenizer). Raises what the model raises."""
        with self._building:
            if self._driver is None:
                self._driver = self._make(self.config)
            return self._driver

    def started_driver(self) -> Driver:
        """The driver once somebody started the engine. Raises ``EngineStopped`` before."""
        if self._driver is None:
            raise EngineStopped("the engine was not started yet: start it on the Home page")
        return self._driver

    def start(self, config: EngineConfig | None = None) -> None:
        """Start the engine if it is not running; with another configuration change the model. Returns at once."""
        with self._lock:
            wanted = config or self.config
            if self.status().phase in ("starting", "ready") and wanted == self.config:
                return
            self.config, self._started_s = wanted, time.monotonic()
            self._failure = self.notice = ""
            self._launch = threading.Thread(target=self._bring_up, args=(wanted,), name="engine-start", daemon=True)
            self._launch.start()

    def stop(self) -> None:
        """Unload the model: the process ends and its memory returns."""
        self.pacer.halt()
        if self._driver is not None:
            self._driver.stop()

    def restart(self) -> None:
        """Start again after a stop or a crash, with the same configuration."""
        self.stop()
        self.start()

    def when_ready(self, work: Callable[[Driver], object], patience_s: float = 600.0) -> None:
        """Start the engine if need be and do ``work`` with it in the background; a failure becomes the notice."""
        self.start()

        def wait_and_work() -> None:
            try:
                if self._launch is not None:
                    self._launch.join()
                driver = self.driver()
                driver.wait_ready(patience_s)
                work(driver)
            except Exception as error:  # nobody waits for this thread: the page shows the notice
                self.notice = str(error)

        threading.Thread(target=wait_and_work, name="engine-work", daemon=True).start()

    def status(self) -> Status:
        """How the engine is now; costs microseconds."""
        since_s = time.monotonic() - self._started_s
        if self._launch is not None and self._launch.is_alive():
            return Status("starting", "reading the tokenizer", 0.0, since_s)
        if self._failure:
            return Status("dead", self._failure)
        driver = self._driver
        if driver is None:
            return Status()
        phase = PHASES[driver.state]
        words, progress = driver.progress if phase == "starting" else ("" if phase == "ready" else driver.reason, 0.0)
        paused = driver.state == "paused" and not self.pacer.running
        return Status(phase, words, progress, since_s, paused, driver.busy)

    def pause(self) -> None:
        """Stand still at the next step boundary."""
        self.pacer.halt()
        self.driver().pause()

    def resume(self) -> None:
        """Go on, at the pace that was chosen."""
        self.pacer.go(self.driver())

    def step(self) -> None:
        """One step of the engine, which stands still before and after it."""
        self.pacer.halt()
        self.driver().step(1)

    def pace(self, steps_s: int) -> None:
        """So many steps a second from now on; 0 is full speed."""
        self.pacer.change(steps_s, self._driver)

    def run(self) -> Timeline | None:
        """The newest run that has something to show; of the last engine when none is running."""
        trace = self._driver.trace if self._driver is not None else None
        live = trace.live if trace is not None else None
        return live if live is not None and live.last_step > 0 else None

    def _bring_up(self, wanted: EngineConfig) -> None:
        try:
            driver = self.driver()
            if driver.config != wanted:
                driver.change_model(wanted)
            driver.start()
        except Exception as error:  # shown by status; a running engine is untouched by a model that cannot be loaded
            if self._driver is not None and self._driver.state in ("ready", "paused"):
                self.config, self.notice = self._driver.config, str(error)
            else:
                self._failure = str(error)


@cache
def _made() -> Session:
    made = Session()
    atexit.register(made.stop)
    return made


_making = threading.Lock()


def session() -> Session:
    """The server's session, made once however many threads ask; its engine ends with the server."""
    with _making:
        return _made()
