"""The answers of live requests: their text as it streams, and when it ends."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from engine.request import Request
from engine.scheduling.results import Applied, OneEach
from engine.text import PieceBytes, TextStream
from engine.trace.events import Cause

Logprobs = list[dict[int, float] | None]


@dataclass(slots=True)
class Delta:
    """What one step added to one answer. Exactly one delta of a request has a cause, and it is the last.

    ``text`` may lag behind ``token_ids``: half a character or a possible stop string waits.
    """

    request_id: int
    name: str
    text: str
    token_ids: list[int]
    cause: str | None = None  # length, eos, stop, abort, error
    logprobs: Logprobs | None = None


class Answers:
    """Live requests by the engine's number and by the caller's name.

    Args:
        piece_bytes: the bytes of a token id.
        on_delta: called with each piece of each answer; None when nobody reads text (it is then made only to find
            stop strings).
    """

    def __init__(self, piece_bytes: PieceBytes, on_delta: Callable[[Delta], None] | None) -> None:
        self._piece_bytes = piece_bytes
        self._on_delta = on_delta
        self._live: dict[int, tuple[Request, TextStream]] = {}
        self._ids: dict[str, int] = {}
        self._stoppers: set[int] = set()  # live requests that a stop string may end
        self._later: list[Sequence[Applied]] = []

    def __contains__(self, request_id: object) -> bool:
        return request_id in self._live

    def __len__(self) -> int:
        """How many requests live. Who has ended is told so first."""
        self.deliver()
        return len(self._live)

    @property
    def ids(self) -> list[int]:
        """Numbers of the live requests, oldest first."""
        self.deliver()
        return list(self._live)

    def find(self, name_or_id: str | int) -> int | None:
        """The number of a live request, None when there is no such. Who has ended is told so first."""
        self.deliver()
        request_id = self._ids.get(name_or_id) if isinstance(name_or_id, str) else name_or_id
        return request_id if request_id in self._live else None

    def open(self, request: Request) -> None:
        """Begin an answer. A forced length overrides stop strings."""
        stops = () if request.params.forced_output_length else request.params.stop
        self._live[request.id] = (request, TextStream(self._piece_bytes, stops, request.params.min_tokens))
        self._ids[request.name] = request.id
        if stops:
            self._stoppers.add(request.id)

    def take(self, applied: Sequence[Applied]) -> list[int]:
        """Take in the tokens of one step: those that a stop string waits for at once, the others when ``deliver`` is
        called, while the device works. Returns the requests that a stop string ended now."""
        if not self._stoppers:
            if self._on_delta is not None or not isinstance(applied, OneEach):
                self._later.append(applied)
            return []
        mine = [entry.request.id in self._stoppers for entry in applied]
        self._later.append([entry for entry, stops in zip(applied, mine) if not stops])
        return [entry.request.id for entry, stops in zip(applied, mine) if stops and self._add(entry)]

    def deliver(self) -> None:
        """Send what was taken in and not sent yet."""
        later, self._later = self._later, []
        for applied in later:
            if isinstance(applied, OneEach):
                self._add_one_each(applied)
                continue
            for entry in applied:
                self._add(entry)

    def _add_one_each(self, applied: OneEach) -> None:
        """``_add`` for the common step: every row got one token that ends nothing, and none has stop strings."""
        live, send = self._live, self._on_delta
        for request, token in zip(applied.requests, applied.token_ids):
            known = live.get(request.id)
            if known is not None:
                send(Delta(request.id, request.name, known[1].push_one(token), [token]))

    def _add(self, entry: Applied) -> bool:
        """Add tokens to an answer and send what they let out; with a cause when the scheduler ended it with them.

        True when a stop string completed: the answer ends there, and tokens behind it are not part of it.
        """
        request, token_ids, cause, logprobs = entry.request, entry.token_ids, entry.cause, entry.logprobs
        if request.id not in self._live:
            return False
        request, text = self._live[request.id]
        if self._on_delta is None and not request.params.stop:
            if cause is not None:
                self._close(request)
            return False
        # The token that ends an answer by itself (end of sequence, stop id) is part of it but not shown.
        shown = token_ids[:-1] if cause in (Cause.EOS, Cause.STOP) else token_ids
        before = text.num_tokens
        delta, stopped = text.push(shown)
        if stopped:
            token_ids, cause = token_ids[: text.num_tokens - before], Cause.STOP
        self._send(request, text, delta, token_ids, cause, None if request.params.logprobs is None else logprobs)
        return stopped

    def end(self, request_id: int, cause: Cause) -> None:
        """End an answer without further tokens; what was held back is sent."""
        self.deliver()
        if request_id not in self._live:  # its last tokens were still to be delivered
            return
        request, text = self._live[request_id]
        self._send(request, text, "", [], cause, None)

    def _send(
        self,
        request: Request,
        text: TextStream,
        delta: str,
        token_ids: list[int],
        cause: Cause | None,
        logprobs: Logprobs | None,
    ) -> None:
        if cause is not None:
            delta += text.finish()
            self._close(request)
        if self._on_delta is not None:
            word = None if cause is None else cause.name.lower()
            self._on_delta(Delta(request.id, request.name, delta, token_ids, word, logprobs))

    def _close(self, request: Request) -> None:
        del self._live[request.id], self._ids[request.name]
        self._stoppers.discard(request.id)
