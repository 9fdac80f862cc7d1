"""The answer to a submitted request, as it arrives from the engine process."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass

from engine.answers import Delta, Logprobs


@dataclass(frozen=True, slots=True)
class Completion:
    """A whole answer. ``cause`` is length, eos, stop, abort or error."""

    name: str
    text: str
    token_ids: list[int]
    cause: str
    logprobs: Logprobs | None = None


class Stream:
    """Deltas of one answer. Iterate it (``for`` or ``async for``, from any thread), or wait for ``result``.

    Leaving an iteration early ends the request. The iteration ends after the delta that has a cause; it raises
    ``EngineStopped`` when the engine ended without one, and ``RequestRefused`` when the request can never run.

    Args:
        name: of the request.
        abort: ends the request in the engine.
    """

    def __init__(self, name: str, abort: Callable[[], object]) -> None:
        self.name = name
        self._abort = abort
        self._deltas: list[Delta] = []
        self._error: Exception | None = None
        self._changed = threading.Condition()
        self._listeners: list[Callable[[], None]] = []

    def push(self, delta: Delta) -> None:
        """Add a delta (the driver's thread)."""
        with self._changed:
            self._deltas.append(delta)
            self._notify()

    def fail(self, error: Exception) -> None:
        """End with an error, unless it has ended (the driver's thread)."""
        with self._changed:
            if not self.ended:
                self._error = error
                self._notify()

    @property
    def ended(self) -> bool:
        """True when no delta will follow."""
        return self._error is not None or bool(self._deltas and self._deltas[-1].cause)

    def abort(self) -> None:
        """End the request; harmless when it has ended."""
        if not self.ended:
            self._abort()

    def result(self, timeout: float | None = None) -> Completion:
        """Wait for the whole answer.

        Raises:
            TimeoutError: it took longer than ``timeout`` seconds; the request goes on.
            EngineStopped, RequestRefused, InvalidRequest: as the stream ended.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: self.ended, timeout):
                raise TimeoutError(f"request {self.name!r} has not ended after {timeout} s")
        if self._error is not None:
            raise self._error
        deltas = self._deltas
        logprobs = [entry for delta in deltas for entry in delta.logprobs or ()]
        ids = [token for delta in deltas for token in delta.token_ids]
        text = "".join(delta.text for delta in deltas)
        return Completion(self.name, text, ids, deltas[-1].cause, logprobs or None)

    def text(self, timeout: float | None = None) -> str:
        """The whole text; waits as ``result`` does."""
        return self.result(timeout).text

    def __iter__(self) -> Iterator[Delta]:
        seen = 0
        try:
            while True:
                fresh, over = self._wait(seen)
                yield from fresh
                seen += len(fresh)
                if over:
                    return
        finally:
            self.abort()

    async def __aiter__(self) -> AsyncIterator[Delta]:
        loop, news, seen = asyncio.get_running_loop(), asyncio.Event(), 0

        def wake() -> None:
            with suppress(RuntimeError):  # the loop was closed without closing this iteration
                loop.call_soon_threadsafe(news.set)

        with self._changed:
            self._listeners.append(wake)
        try:
            while True:
                news.clear()
                with self._changed:
                    fresh, over = self._take(seen)
                for delta in fresh:
                    yield delta
                seen += len(fresh)
                if over:
                    return
                await news.wait()
        finally:
            with self._changed:
                self._listeners.remove(wake)
            self.abort()

    def _wait(self, seen: int) -> tuple[list[Delta], bool]:
        with self._changed:
            self._changed.wait_for(lambda: self.ended or len(self._deltas) > seen)
            return self._take(seen)

    def _take(self, seen: int) -> tuple[list[Delta], bool]:
        """Deltas behind the first ``seen`` ones, and whether none will follow. Raises the error when all were seen."""
        fresh = self._deltas[seen:]
        if self._error is not None and not fresh:
            raise self._error
        return fresh, self.ended and self._error is None

    def _notify(self) -> None:
        self._changed.notify_all()
        for wake in self._listeners:
            wake()
