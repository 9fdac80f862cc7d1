"""The app's handle on the engine process. Every method may be called from any thread.

stopped -> starting -> ready <-> paused -> stopped | failed (with the reason in words) -> starting -> ...
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count

from engine.config import EngineConfig
from engine.errors import EngineStopped, InvalidRequest
from engine.limits import Limits
from engine.link import Link
from engine.loading import TORCH_WORKER
from engine.messages import Ready
from engine.request import SamplingParams
from engine.stream import Stream
from engine.tokenizer import Tokenizer
from engine.tokenizer import load as load_tokenizer
from engine.trace.reader import TraceReader
from engine.workload.race_spec import RaceSpec

Report = Callable[[str, float], None]


class Driver:
    """Starts, feeds, watches and ends the process that owns the engine.

    ``busy`` says in words what holds the engine at the moment (a race, exclusive work), and is empty otherwise.

    Args:
        config: what to load.
        worker: ``module:class`` of the worker.
    """

    def __init__(self, config: EngineConfig, worker: str = TORCH_WORKER) -> None:
        self.config = config.validate()
        self.tokenizer: Tokenizer = load_tokenizer(config.worker)
        self._last_trace: TraceReader | None = None
        self.busy = ""
        self._worker = worker
        self._link: Link | None = None
        self._lifecycle = threading.RLock()
        self._job = threading.Lock()
        self._names = count()

    # ---- life

    @property
    def state(self) -> str:
        """starting, ready, paused, stopped or failed."""
        return self._link.state if self._link else "stopped"

    @property
    def reason(self) -> str:
        """Why it is stopped or failed, in words."""
        return self._link.reason if self._link else "not started"

    @property
    def progress(self) -> tuple[str, float]:
        """What the load is doing, and how far it is (0 to 1)."""
        return self._link.progress if self._link else ("not started", 0.0)

    @property
    def pid(self) -> int | None:
        """Process id of the engine, None when there is none."""
        return self._link.pid if self._link and self._link.alive else None

    @property
    def trace(self) -> TraceReader | None:
        """Follows the running engine. While one starts: what the last one did, or None."""
        return self._link.trace if self._link and self._link.ready else self._last_trace

    def start(self) -> None:
        """Start the engine unless it runs; returns at once. Many callers at the same time start one process."""
        with self._lifecycle:
            if self._link is None or not self._link.alive:
                self._last_trace = self.trace
                self._link = Link(self.config, self._worker)

    def wait_ready(self, timeout: float | None = None) -> None:
        """Wait until requests can be submitted.

        Raises:
            TimeoutError: not ready in ``timeout`` seconds; loading goes on.
            UnsupportedModel, OutOfMemory, InvalidRequest, EngineStopped: why it will never be ready.
        """
        link = self._link
        if link is None:
            raise EngineStopped("not started")
        if not link.settled.wait(timeout):
            raise TimeoutError(f"the engine is not ready after {timeout} s: {link.progress[0]}")
        if not link.alive:
            raise link.error

    def stop(self, reason: str = "the engine was stopped") -> None:
        """End the process: its memory returns to the system. Live requests end with cause ``abort``."""
        with self._lifecycle:
            if self._link is not None and self._link.alive:
                self._link.stop(reason)

    def change_model(self, config: EngineConfig) -> None:
        """Replace the engine; returns while the new one starts. Live requests are aborted with that reason.

        Raises:
            InvalidRequest, UnsupportedModel: and then the running engine is not touched.
        """
        tokenizer = load_tokenizer(config.validate().worker)
        with self._lifecycle:
            self.stop("the model is changed")
            self.config, self.tokenizer = config, tokenizer
            self.start()

    # ---- facts of the loaded model; EngineStopped before there is one

    @property
    def limits(self) -> Limits:
        """What requests may ask for."""
        return self._ready.limits

    @property
    def info(self) -> dict:
        """Device, driver, versions, commit, memory map."""
        return self._ready.info

    @property
    def memory_map(self) -> dict[str, int]:
        """Bytes on the device by use."""
        return self.info["memory_map"]

    @property
    def concrete_config(self) -> EngineConfig:
        """The configuration with ``pool_blocks`` and ``max_model_len`` as they came out."""
        return self._ready.config

    # ---- requests

    def submit(
        self,
        prompt: str | list[int],
        params: SamplingParams | None = None,
        name: str = "",
        priority: int = 0,
        salt: int = 0,
    ) -> Stream:
        """Send a request to the engine; its answer arrives in the stream. It does not wait, not even while paused.

        Raises:
            InvalidRequest: before anything was sent.
            EngineStopped: there is no engine to send it to.
        """
        link, ready, params = self._running, self._ready, params or SamplingParams()
        ids = self.tokenizer.encode(prompt) if isinstance(prompt, str) else list(prompt)
        ready.limits.check(ids, params)
        name = name or f"request-{next(self._names)}"
        if name in link.open_names:
            raise InvalidRequest("name", "one that no live request has", name)
        return link.open_stream(name, ids, params, name, priority, salt)

    def abort(self, name_or_id: str | int) -> bool:
        """End a request. False when it is unknown or has ended."""
        return self._running.call("abort", name_or_id)

    # ---- the transport bar

    def pause(self) -> None:
        """Stand still at the next step boundary, with nothing in flight. Requests may still arrive."""
        self._running.call("pause", "user")

    def resume(self) -> None:
        """Go on."""
        self._running.call("resume", "user")

    def step(self, count: int = 1) -> int:
        """Pause, then run up to ``count`` steps. Returns how many there were to run."""
        if not 1 <= count <= 10_000:
            raise InvalidRequest("count", "1 to 10,000 steps", count)
        return self._running.call("step", count)

    # ---- jobs that need the engine for themselves

    def race(self, spec: RaceSpec, progress: Report = lambda text, done: None) -> dict:
        """Race schedulers on the loaded model and return the results.

        Live requests are aborted; each run appears in ``trace`` as it runs; afterwards a fresh live run begins.
        ``progress`` is called in the caller's thread; when it raises, the race is given up.
        """
        with self._one_job("a race is running"):
            return self._running.call("race", spec, report=progress)

    @contextmanager
    def exclusive(self, what: str = "other work uses the device") -> Iterator[None]:
        """The engine stands still at a step boundary meanwhile; ``what`` is shown to those who wait."""
        with self._one_job(what):
            link = self._link
            if link is None or not link.settled.wait() or not link.alive:
                yield
                return
            link.call("pause", "exclusive")
            try:
                yield
            finally:
                link.post("resume", "exclusive")

    @contextmanager
    def _one_job(self, what: str) -> Iterator[None]:
        with self._job:
            self.busy = what
            try:
                yield
            finally:
                self.busy = ""

    @property
    def _running(self) -> Link:
        link = self._link
        if link is None or link.state not in ("ready", "paused"):
            raise EngineStopped(f"the engine is {self.state}: {self.reason or self.progress[0]}")
        return link

    @property
    def _ready(self) -> Ready:
        ready = self._link.ready if self._link else None
        if ready is None:
            raise EngineStopped(f"the engine is {self.state}: {self.reason or self.progress[0]}")
        return ready
