"""Text from tokens, as it streams: never half a character, never the beginning of a stop string.

Pieces are bytes, so an emoji that is split over three tokens is one incremental UTF-8 decode and nothing more. What a
stream shows is a prefix of ``tokenizer.decode(all ids)`` at every moment, and equal to it at the end.
"""

import codecs
from collections.abc import Callable, Iterable, Sequence

PieceBytes = Callable[[int], bytes]


class Detokenizer:
    """Turns token ids into text, one piece at a time.

    Args:
        piece_bytes: the UTF-8 bytes of a token id (empty for special tokens); may be part of a character.
        strip_leading_space: True at the very start of a text of a SentencePiece-like tokenizer, whose ``decode`` drops
            the space that stands before the first word.
    """

    def __init__(self, piece_bytes: PieceBytes, strip_leading_space: bool = False) -> None:
        self._piece_bytes = piece_bytes
        self._strip = strip_leading_space
        self._unfinished = b""  # the first bytes of a character

    def push(self, ids: Iterable[int]) -> str:
        """The text that these ids complete; bytes of an unfinished character wait for the next call."""
        return self._decode(b"".join(map(self._piece_bytes, ids)))

    def push_one(self, token: int) -> str:
        """``push`` of a single id."""
        return self._decode(self._piece_bytes(token))

    def flush(self) -> str:
        """What is left at the end: a character that never completed becomes U+FFFD, as in ``decode``."""
        return self._decode(b"", final=True)

    def _decode(self, data: bytes, final: bool = False) -> str:
        if self._unfinished:
            data = self._unfinished + data
        text, used = codecs.utf_8_decode(data, "replace", final)
        self._unfinished = data[used:]
        return self._without_space(text) if self._strip else text

    def _without_space(self, text: str) -> str:
        self._strip = not text
        return text.removeprefix(" ")


class StopStrings:
    """Finds stop strings across pieces. Holds back the longest stop string less one character."""

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = tuple(stops)
        self._hold = max(map(len, self._stops), default=1) - 1
        self._held = ""

    def push(self, text: str) -> tuple[str, bool]:
        """Text that is safe to show, and whether a stop string completed. The match and all behind it are dropped."""
        text = self._held + text
        start = self._match_start(text)
        if start is not None:
            self._held = ""
            return text[:start], True
        cut = max(0, len(text) - self._hold)
        self._held = text[cut:]
        return text[:cut], False

    def flush(self) -> str:
        """The held-back tail: no stop string can complete any more."""
        held, self._held = self._held, ""
        return held

    def _match_start(self, text: str) -> int | None:
        """Where the match that completes first begins (of two that complete together, the longer one)."""
        found = [(at + len(stop), at) for stop in self._stops if (at := text.find(stop)) >= 0]
        return min(found)[1] if found else None


class TextStream:
    """The text of one answer: a detokeniser and stop strings in a row.

    Args:
        piece_bytes: the bytes of a token id.
        stops: stop strings.
        min_tokens: stop strings do not count before this many tokens.
    """

    def __init__(self, piece_bytes: PieceBytes, stops: Sequence[str] = (), min_tokens: int = 0) -> None:
        self._detokenizer = Detokenizer(piece_bytes)
        self._stops = StopStrings(stops) if stops else None
        self._min_tokens = min_tokens
        self.num_tokens = 0  # of the answer; where a stop string completed, tokens behind it are not counted
        self.stopped = False

    def push(self, ids: Sequence[int]) -> tuple[str, bool]:
        """The text these ids let out, and whether a stop string completed (later ids are ignored then)."""
        if self._stops is None:
            self.num_tokens += len(ids)
            return self._detokenizer.push(ids), False
        out = []
        for token in ids:
            if self.stopped:
                break
            self.num_tokens += 1
            out.append(self._advance(self._detokenizer.push((token,))))
        return "".join(out), self.stopped

    def push_one(self, token: int) -> str:
        """``push`` of a single id to a stream without stop strings: text of many rows has to be cheap."""
        self.num_tokens += 1
        return self._detokenizer.push_one(token)

    def finish(self) -> str:
        """The rest of an answer that ended; empty after a stop string, whose tail was dropped."""
        if self.stopped:
            return ""
        rest = self._detokenizer.flush()
        return rest if self._stops is None else self._advance(rest) + self._stops.flush()

    def _advance(self, text: str) -> str:
        if self.num_tokens <= self._min_tokens:
            return self._stops.flush() + text
        shown, self.stopped = self._stops.push(text)
        return shown
