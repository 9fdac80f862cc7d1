"""How completions and chat completions differ in what they send."""

from collections.abc import Sequence
from dataclasses import dataclass

from engine.answers import Delta
from engine.tokenizer import Tokenizer

FINISH = {"length": "length", "eos": "stop", "stop": "stop", "abort": "abort", "error": "error"}


@dataclass(frozen=True, slots=True)
class Shape:
    """The JSON of one of the two APIs."""

    chat: bool
    prefix: str
    object: str
    chunk_object: str

    def choice(self, index: int, answer: Sequence[Delta], tokenizer: Tokenizer) -> dict:
        """A whole answer."""
        text = "".join(delta.text for delta in answer)
        content = {"message": {"role": "assistant", "content": text}} if self.chat else {"text": text}
        reason = FINISH[answer[-1].cause]
        return {"index": index, **content, "logprobs": logprobs(answer, tokenizer), "finish_reason": reason}

    def chunk(self, delta: Delta, is_first: bool) -> dict:
        """One event of a streamed answer."""
        role = {"role": "assistant"} if is_first else {}
        content = {"delta": {**role, "content": delta.text}} if self.chat else {"text": delta.text}
        reason = FINISH[delta.cause] if delta.cause else None
        return {"index": 0, **content, "logprobs": None, "finish_reason": reason}


COMPLETION = Shape(False, "cmpl-", "text_completion", "text_completion")
CHAT = Shape(True, "chatcmpl-", "chat.completion", "chat.completion.chunk")


def logprobs(answer: Sequence[Delta], tokenizer: Tokenizer) -> dict | None:
    """Log-probabilities of the answer's tokens in the completions format, None when they were not asked for."""
    pairs = [pair for delta in answer if delta.logprobs for pair in zip(delta.token_ids, delta.logprobs)]
    if not pairs:
        return None

    def text(token: int) -> str:
        return tokenizer.decode([token])

    tokens = [text(token) for token, _ in pairs]
    return {
        "tokens": tokens,
        "token_logprobs": [entry.get(token) if entry else None for token, entry in pairs],
        "top_logprobs": [{text(token): value for token, value in (entry or {}).items()} for _, entry in pairs],
        "text_offset": [sum(map(len, tokens[:place])) for place in range(len(tokens))],
    }
