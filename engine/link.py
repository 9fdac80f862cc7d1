"""One engine process and the pipe to it: starts it, hears from it, notices its end."""

import logging
import queue
import subprocess
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import Future
from itertools import count
from pathlib import Path
from typing import Any

from engine.answers import Delta
from engine.config import EngineConfig
from engine.errors import EngineStopped
from engine.messages import LOADING, Answer, Call, Failed, Message, Pieces, Progress, Ready, Start, Status
from engine.spawn import death, spawn
from engine.stream import Stream
from engine.trace.reader import TraceReader

log = logging.getLogger(__name__)
PATIENCE_S = 5.0  # a process that was asked to end is killed after this long
Report = Callable[[str, float], None]


class Link:
    """A child process from its start to its end. Never restarted: a new engine is a new link.

    ``state`` is starting, ready, paused, stopped or failed; ``reason`` says in words why it is stopped or failed.

    Args:
        config: what the child loads.
        worker: ``module:class`` of its worker.
    """

    def __init__(self, config: EngineConfig, worker: str) -> None:
        self.state, self.reason = "starting", ""
        self.progress: tuple[str, float] = ("starting the engine process", 0.0)
        self.ready: Ready | None = None
        self.error: Exception | None = None  # what waiters got when it ended
        self.settled = threading.Event()  # ready, or ended
        self._lock = threading.Lock()
        self._tickets = count(LOADING + 1)
        self._calls: dict[int, Future] = {}
        self._reports: dict[int, queue.SimpleQueue] = {}
        self._streams: dict[int, Stream] = {}
        self._folder = tempfile.TemporaryDirectory(prefix="flightdeck-")
        ring = Path(self._folder.name) / "trace.ring"
        self.trace = TraceReader(ring, lambda: self.post("keyframe"))
        self._connection, self._process = spawn()
        self._try_send(Start(config, ring, worker))
        self._thread = threading.Thread(target=self._listen, name="engine-link", daemon=True)
        self._thread.start()

    @property
    def pid(self) -> int:
        """Process id of the child."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """True while calls can reach the engine or will be able to."""
        return self.state not in ("stopped", "failed")

    def call(self, method: str, *args: Any, timeout: float | None = None, report: Report | None = None) -> Any:
        """Ask the child and wait for its answer, which comes at its next step boundary.

        ``report`` is told about the progress of a long call, in this thread; when it raises, the call is given up.

        Raises:
            EngineStopped: it ended before it answered.
            TimeoutError: no answer in ``timeout`` seconds; a short call still takes effect.
        """
        ticket, future = next(self._tickets), Future()
        self._send(Call(ticket, method, args), self._calls, future)
        try:
            if report is not None:
                self._relay(ticket, future, report)
            return future.result(timeout)
        finally:
            if not future.done():
                self.post("give_up", ticket)
            self._calls.pop(ticket, None)

    def post(self, method: str, *args: Any) -> None:
        """Ask the child without waiting; nothing happens when it has ended."""
        with self._lock:
            if self.alive:
                self._try_send(Call(next(self._tickets), method, args))

    def open_stream(self, name: str, *args: Any) -> Stream:
        """Submit a request; the stream fills as it is answered. Raises ``EngineStopped`` when the child has ended."""
        ticket = next(self._tickets)
        # By ticket: a late abort must not hit a newer request of the same name.
        stream = Stream(name, lambda: self.post("cancel", ticket))
        self._send(Call(ticket, "submit", args), self._streams, stream)
        return stream

    @property
    def open_names(self) -> set[str]:
        """Names of the requests whose answers have not ended."""
        with self._lock:
            return {stream.name for stream in self._streams.values()}

    def stop(self, reason: str) -> None:
        """End the child: politely, then by force. Its live requests end as aborted."""
        with self._lock:
            self.reason = self.reason or reason
            self._try_send(Call(next(self._tickets), "stop", (reason,)))
        try:
            self._process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._thread.join()

    def _relay(self, ticket: int, future: Future, report: Report) -> None:
        """Pass progress on until the call is done."""
        news: queue.SimpleQueue[Progress | None] = queue.SimpleQueue()
        self._reports[ticket] = news
        future.add_done_callback(lambda _: news.put(None))
        try:
            while (progress := news.get()) is not None:
                report(progress.text, progress.fraction)
        finally:
            del self._reports[ticket]

    def _send(self, call: Call, waiting: dict[int, Any], waiter: Future | Stream) -> None:
        with self._lock:
            if not self.alive:
                raise EngineStopped(self.reason)
            waiting[call.ticket] = waiter
            self._try_send(call)

    def _try_send(self, message: Start | Call) -> None:
        try:
            self._connection.send(message)
        except OSError:
            return  # the listening thread sees the same end and tells everybody who waits

    def _listen(self) -> None:
        failure: Exception | None = None
        try:
            while True:
                for message in self._connection.recv():
                    if isinstance(message, Failed):
                        failure = message.error
                    elif failure is None:  # what follows belongs to answers that end with this error
                        self._take(message)
        except (EOFError, OSError):
            pass
        except Exception as error:
            log.exception("the link to the engine broke")
            failure = error
            self._process.kill()
        self._end(failure)

    def _take(self, message: Message) -> None:
        match message:
            case Pieces(items):
                for ticket, request_id, text, token_ids, cause, logprobs in items:
                    stream = self._stream(ticket, ends=cause is not None)
                    stream.push(Delta(request_id, stream.name, text, token_ids, cause, logprobs))
            case Answer(ticket, value, error) if ticket in self._calls:
                future = self._calls[ticket]
                future.set_exception(error) if error else future.set_result(value)
            case Answer(ticket, _, error) if error is not None and ticket in self._streams:
                self._stream(ticket, ends=True).fail(error)
            case Progress(ticket, text, fraction) if ticket == LOADING:
                self.progress = (text, fraction)
            case Progress(ticket) if ticket in self._reports:
                self._reports[ticket].put(message)
            case Status(paused):
                self.state = "paused" if paused else "ready"
            case Ready():
                self.ready = message
                self._follow_trace()
                self.state, self.progress = "ready", ("ready", 1.0)
                self.settled.set()

    def _stream(self, ticket: int, ends: bool) -> Stream:
        with self._lock:
            return self._streams.pop(ticket) if ends else self._streams[ticket]

    def _follow_trace(self) -> None:
        self.trace.poll()
        self._folder.cleanup()  # mapped on both sides: no file stays behind, whoever is killed
        self.trace.follow()

    def _end(self, failure: Exception | None) -> None:
        """The child is gone: say why, and let nobody wait for it."""
        try:
            status = self._process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            status = self._process.wait()
        self.trace.poll()
        self.trace.close()
        with self._lock:
            asked = bool(self.reason)
            self.reason = self.reason if asked else str(failure or death(status))
            self.state = "stopped" if asked else "failed"
            self.error = failure if self.ready is None and failure else EngineStopped(self.reason)
            calls, streams = list(self._calls.values()), list(self._streams.values())
            self._streams.clear()
        for future in calls:
            if not future.done():
                future.set_exception(self.error)
        for stream in streams:
            stream.fail(self.error)
        self._connection.close()
        self._folder.cleanup()
        self.settled.set()
