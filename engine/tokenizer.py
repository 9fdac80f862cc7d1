"""Text to token ids and back, and the bytes behind each id.

Reads ``tokenizer.json`` with the ``tokenizers`` library, which transformers' tokenizers wrap: the app process needs
neither torch nor transformers to check a prompt. Byte-level BPE (Llama 3, Qwen) and SentencePiece-like (Llama 2)
tokenizers give exact bytes per token. Random weights have no tokenizer: their ids below 256 are bytes.
"""

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import tokenizers

from engine.config import WorkerConfig
from engine.errors import InvalidRequest, UnsupportedModel
from engine.model_files import model_folder, read_json

Message = dict[str, Any]  # {"role": ..., "content": ...}


class Tokenizer(Protocol):
    """What the engine needs of a tokenizer."""

    vocab_size: int
    eos_ids: frozenset[int]

    def encode(self, text: str) -> list[int]:
        """Ids of a text, with the special tokens that the model expects in front."""

    def decode(self, ids: Sequence[int]) -> str:
        """Text of ids, special tokens left out."""

    def piece_bytes(self, token: int) -> bytes:
        """UTF-8 bytes of one id, perhaps part of a character; empty for special and unknown ids."""

    def chat(self, messages: Sequence[Message]) -> list[int]:
        """Ids of a conversation, up to where the assistant speaks. ``InvalidRequest`` without a chat template."""


def load(config: WorkerConfig) -> Tokenizer:
    """The tokenizer of a model.

    Raises:
        UnsupportedModel: the model has no ``tokenizer.json`` or cannot be found.
    """
    if config.random_weights is not None:
        return ByteTokenizer(config.random_weights)
    folder = model_folder(config)
    path, template = folder / "tokenizer.json", folder / "chat_template.jinja"
    if not path.is_file():
        raise UnsupportedModel(f"model {config.model!r} has no tokenizer.json", ("tokenizers with a tokenizer.json",))
    settings = read_json(folder / "tokenizer_config.json")
    return FileTokenizer(
        config.model,
        tokenizers.Tokenizer.from_file(str(path)),
        settings,
        _eos_ids(folder),
        template.read_text(encoding="utf-8")
        if template.is_file()
        else _default_template(settings.get("chat_template")),
    )


class FileTokenizer:
    """A tokenizer from a model's files.

    Args:
        model: its name, for messages.
        backend: the parsed ``tokenizer.json``.
        settings: ``tokenizer_config.json``.
        eos_ids: ids that end an answer.
        chat_template: Jinja source, or None for a base model.
    """

    def __init__(
        self,
        model: str,
        backend: tokenizers.Tokenizer,
        settings: dict,
        eos_ids: frozenset[int] = frozenset(),
        chat_template: str | None = None,
    ) -> None:
        self.model, self.eos_ids, self.chat_template = model, eos_ids, chat_template
        self._backend = backend
        self._settings = settings
        self.vocab_size = backend.get_vocab_size()
        self._special = {token for token, added in backend.get_added_tokens_decoder().items() if added.special}
        self._to_bytes = _byte_level_piece if "ByteLevel" in repr(backend.decoder) else _sentencepiece_piece
        self.piece_bytes: Callable[[int], bytes] = cache(self._piece)

    def encode(self, text: str) -> list[int]:
        """Ids of a text, with the special tokens that the model expects in front."""
        return self._backend.encode(text).ids

    def decode(self, ids: Sequence[int]) -> str:
        """Text of ids, special tokens left out."""
        return self._backend.decode(list(ids), skip_special_tokens=True)

    def chat(self, messages: Sequence[Message]) -> list[int]:
        """Ids of a conversation rendered by the model's chat template, up to where the assistant speaks.

        Raises:
            InvalidRequest: the model has no chat_template, or the template rejects the messages.
        """
        if self.chat_template is None:
            raise InvalidRequest("messages", f"the model {self.model!r} has no chat_template; send a plain prompt")
        return self._backend.encode(self._render(messages), add_special_tokens=False).ids

    def _render(self, messages: Sequence[Message]) -> str:
        from engine.chat import render

        names = ("bos_token", "eos_token", "pad_token", "unk_token")
        return render(self.chat_template, messages, {name: _content(self._settings.get(name)) for name in names})

    def _piece(self, token: int) -> bytes:
        if token in self._special:
            return b""
        piece = self._backend.id_to_token(token)
        return b"" if piece is None else self._to_bytes(piece)


class ByteTokenizer:
    """Stands in where a model has random weights: a text is its bytes, any other id is shown by its number."""

    eos_ids: frozenset[int] = frozenset()
    vocab_size = 256  # ids that text can produce; the model may know more

    def __init__(self, model: str) -> None:
        self.model = model

    def encode(self, text: str) -> list[int]:
        """The UTF-8 bytes of a text."""
        return list(text.encode())

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids."""
        return b"".join(map(self.piece_bytes, ids)).decode(errors="replace")

    def piece_bytes(self, token: int) -> bytes:
        """One byte below 256, else the id in brackets."""
        return bytes((token,)) if token < 256 else f"[{token}]".encode()

    def chat(self, messages: Sequence[Message]) -> list[int]:
        """Random weights have no chat template: raises ``InvalidRequest``."""
        raise InvalidRequest("messages", f"random weights ({self.model}) have no chat_template; send a plain prompt")


def _byte_level_piece(piece: str) -> bytes:
    """Byte-level BPE spells each byte as one printable character; an added token stands for itself."""
    alphabet = _byte_alphabet()
    if all(character in alphabet for character in piece):
        return bytes(alphabet[character] for character in piece)
    return piece.encode()


def _sentencepiece_piece(piece: str) -> bytes:
    """SentencePiece writes a space as U+2581 and a byte without a piece of its own as ``<0x0A>``."""
    if len(piece) == 6 and piece.startswith("<0x") and piece.endswith(">"):
        return bytes.fromhex(piece[3:5])
    return piece.replace("\u2581", " ").encode()


@cache
def _byte_alphabet() -> dict[str, int]:
    """Character to byte of GPT-2's alphabet: printable Latin-1 stands for itself, the rest follows from U+0100 on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in set(printable)]
    return {chr(byte): byte for byte in printable} | {chr(0x100 + n): byte for n, byte in enumerate(others)}


def _eos_ids(folder: Path) -> frozenset[int]:
    """Ids that end an answer: those of the generation config, else of the model's."""
    for name in ("generation_config.json", "config.json"):
        found = read_json(folder / name).get("eos_token_id")
        if found is not None:
            return frozenset((found,) if isinstance(found, int) else found)
    return frozenset()


def _default_template(template: str | list | None) -> str | None:
    if isinstance(template, list):
        return {entry["name"]: entry["template"] for entry in template}.get("default")
    return template


def _content(token: str | dict | None) -> str:
    return token.get("content", "") if isinstance(token, dict) else token or ""
