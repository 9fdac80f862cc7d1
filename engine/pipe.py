"""The child's end of the pipe. One thread reads calls, one writes messages: a slow reader never stops a step."""

import os
import queue
import threading
from multiprocessing.connection import Connection

from engine.errors import EngineStopped
from engine.messages import Call, Message, Progress, Start


class Pipe:
    """An inbox of calls and an outbox of messages. When the parent is gone, the process ends at once.

    Args:
        connection: its first message says what to start.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._inbox: queue.SimpleQueue[Call] = queue.SimpleQueue()
        self._outbox: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
        self.stopping = False  # somebody asked to stop: loading and long calls give up
        self.given_up: set[int] = set()  # tickets of calls that nobody waits for any more
        self.start: Start = connection.recv()
        self._writer = threading.Thread(target=self._write, name="pipe-writer", daemon=True)
        self._writer.start()
        threading.Thread(target=self._read, name="pipe-reader", daemon=True).start()

    def send(self, message: Message) -> None:
        """Queue a message; never waits."""
        self._outbox.put(message)

    def report(self, ticket: int, text: str, done: float) -> None:
        """Send progress. Raises ``EngineStopped`` when nobody waits for the end any more."""
        if self.stopping or ticket in self.given_up:
            raise EngineStopped("stopped before it was done")
        self.send(Progress(ticket, text, done))

    def next_call(self, timeout: float) -> Call | None:
        """The oldest waiting call, or None when none came in ``timeout`` seconds."""
        try:
            return self._inbox.get(timeout=timeout) if timeout else self._inbox.get_nowait()
        except queue.Empty:
            return None

    def close(self) -> None:
        """Send what is queued."""
        self._outbox.put(None)
        self._writer.join(timeout=5)

    def _read(self) -> None:
        while True:
            try:
                call = self._connection.recv()
            except (EOFError, OSError):
                os._exit(0)  # the parent is gone; the main thread may be deep inside a device call
            if call.method == "give_up":
                self.given_up.update(call.args)
                continue
            self.stopping = self.stopping or call.method == "stop"
            self._inbox.put(call)

    def _write(self) -> None:
        while True:
            batch = [self._outbox.get()]
            while not self._outbox.empty():
                batch.append(self._outbox.get())
            messages = [message for message in batch if message is not None]
            try:
                self._connection.send(messages)
            except OSError:
                return
            if len(messages) < len(batch):
                return
