"""Text that streams: whole characters, stop strings, and equality with ``decode``."""

import random

import pytest
from tokenizers import Tokenizer, decoders, models, processors

from engine.config import WorkerConfig
from engine.text import Detokenizer, StopStrings, TextStream
from engine.tokenizer import FileTokenizer, load

EMOJI = "a\N{GRINNING FACE}b 世界 wörld\n"


def pieces(*texts: str | bytes):
    """A vocabulary of these pieces."""
    table = [text.encode() if isinstance(text, str) else text for text in texts]
    return table.__getitem__


def streamed(stream: TextStream, count: int) -> tuple[list[str], bool]:
    """Push ids 0..count-1 one by one and finish."""
    deltas = [stream.push([token])[0] for token in range(count)]
    return [*deltas, stream.finish()], stream.stopped


def sentencepiece_like() -> FileTokenizer:
    """A Llama-2-like vocabulary: U+2581 for a space, byte fallback, the first space dropped by ``decode``."""
    words = ["<s>", "\u2581Once", "\u2581upon", "on", "\u2581", "!", *(f"<0x{byte:02X}>" for byte in range(256))]
    backend = Tokenizer(models.BPE({word: i for i, word in enumerate(words)}, [], byte_fallback=True))
    backend.add_special_tokens(["<s>"])
    backend.decoder = decoders.Sequence(
        [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    return FileTokenizer("llama-2-like", backend, {})


def test_D_11_the_beginning_of_a_stop_string_is_never_shown() -> None:
    """D-11: a stop string that arrives in pieces used to be streamed before its match was complete."""
    deltas, stopped = streamed(TextStream(pieces("x ", "END", "OF", "LINE"), ["ENDOFLINE"]), 4)
    assert "".join(deltas) == "x " and stopped
    deltas, stopped = streamed(TextStream(pieces("x ", "END", "OF", "LINX"), ["ENDOFLINE"]), 4)
    assert "".join(deltas) == "x ENDOFLINX" and not stopped


def test_D_12_a_character_split_over_tokens_stays_whole() -> None:
    """D-12: each token decoded alone turns an emoji into replacement characters."""
    deltas, _ = streamed(TextStream(pieces("a", b"\xf0\x9f", b"\x98\x80", "b")), 4)
    assert deltas == ["a", "", "\N{GRINNING FACE}", "b", ""]


def test_D_13_nothing_behind_a_stop_string_leaks() -> None:
    """D-13: the held-back tail used to be flushed at the end although the match had discarded it."""
    deltas, stopped = streamed(TextStream(pieces("alpha, ", "beta, ", "gamma, del", "ta"), ["gamma"]), 4)
    assert "".join(deltas) == "alpha, beta, " and stopped


@pytest.mark.parametrize("ids", [[1, 2], [3], [4], [0, 3]])
def test_I_04_stop_words_are_text(ids: list[int]) -> None:
    """I-04: stop words that are compared as ids never match where encoding them adds a first token, or the answer has a
    space in front of the word. Here they are text: "AB" of two ids, "C" and " C" of one, with and without a BOS."""
    words = ["<s>", "A", "B", "C", "\u2581C", "x"]
    backend = Tokenizer(models.BPE({word: i for i, word in enumerate(words)}, []))
    backend.add_special_tokens(["<s>"])
    backend.post_processor = processors.TemplateProcessing("<s> $A", special_tokens=[("<s>", 0)])
    tokenizer = FileTokenizer("adds a first token", backend, {})
    assert tokenizer.encode("C") == [0, 3]
    stream = TextStream(tokenizer.piece_bytes, ["AB", "C"])
    shown, stopped = zip(*(stream.push([token]) for token in [5, *ids, 5]))
    assert any(stopped) and "".join(shown).strip() == "x"


@pytest.mark.parametrize("stops", [["ab"], ["abc", "b"], ["aab", "ba", "bbb"]])
def test_stop_strings_agree_with_a_search_of_the_whole_text(stops: list[str]) -> None:
    """Guards hold-back: however a text is cut into pieces, the answer ends where the earliest match completes."""
    rng = random.Random(0)
    for _ in range(300):
        text = "".join(rng.choices("abc", k=rng.randint(0, 12)))
        ends = [(text.find(stop) + len(stop), text.find(stop)) for stop in stops if stop in text]
        finder, shown, stopped, at = StopStrings(stops), "", False, 0
        while at < len(text) and not stopped:
            # One character at a time decides which match completes first; larger pieces must agree with it.
            size = rng.randint(1, 3)
            delta, stopped = finder.push(text[at : at + size])
            shown, at = shown + delta, at + size
        shown += finder.flush()
        assert shown == (text[: min(ends)[1]] if ends else text)
        assert stopped == bool(ends)


def test_stop_strings_wait_for_min_tokens() -> None:
    """Guards min_tokens: a stop string inside the first tokens must not end the answer."""
    deltas, stopped = streamed(TextStream(pieces("END", "x", "END"), ["END"], min_tokens=1), 3)
    assert "".join(deltas) == "ENDx" and stopped


def test_tokens_behind_a_stop_string_are_not_counted() -> None:
    """Guards answers of several tokens a step: the answer ends where the match completes."""
    stream = TextStream(pieces("a", "STOP", "b"), ["STOP"])
    assert stream.push([0, 1, 2]) == ("a", True)
    assert stream.num_tokens == 2


def test_byte_level_pieces_equal_decode() -> None:
    """Guards piece bytes of byte-level BPE: all deltas together equal ``decode``, special ids hidden."""
    tokenizer = load(WorkerConfig())
    ids = tokenizer.encode(f"In the beginning {EMOJI}")
    ids.insert(3, min(tokenizer.eos_ids))
    detokenizer = Detokenizer(tokenizer.piece_bytes)
    deltas = [detokenizer.push([token]) for token in ids]
    assert "".join(deltas) + detokenizer.flush() == tokenizer.decode(ids)
    assert not any("\ufffd" in delta for delta in deltas)


def test_random_byte_level_ids_equal_decode() -> None:
    """Guards invalid UTF-8: an untrained model samples halves of characters, and both decoders must agree on them."""
    tokenizer, rng = load(WorkerConfig()), random.Random(1)
    for _ in range(50):
        ids = rng.choices(range(tokenizer.vocab_size), k=30)
        detokenizer = Detokenizer(tokenizer.piece_bytes)
        assert "".join(detokenizer.push([token]) for token in ids) + detokenizer.flush() == tokenizer.decode(ids)


def test_sentencepiece_pieces_equal_decode() -> None:
    """Guards the leading space: ``decode`` drops it at the start of a text; behind a prompt it stays."""
    tokenizer = sentencepiece_like()
    ids = [0, 1, 2, *(6 + byte for byte in "é\N{GRINNING FACE}".encode()), 5]
    whole = Detokenizer(tokenizer.piece_bytes, strip_leading_space=True)
    assert "".join(whole.push([token]) for token in ids) + whole.flush() == tokenizer.decode(ids)
    answer = Detokenizer(tokenizer.piece_bytes)
    assert tokenizer.decode(ids[:2]) + answer.push(ids[2:]) == tokenizer.decode(ids)
