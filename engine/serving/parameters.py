"""Reads OpenAI request bodies. A field is used or the request is rejected: nothing is ignored in silence."""

from typing import Any

from engine.errors import InvalidRequest
from engine.limits import Limits
from engine.request import SamplingParams

DEFAULT_MAX_TOKENS = 256
_NUMBER, _WHOLE, _FLAG = (int, float), (int,), (bool,)
FIELDS: dict[str, tuple[type, ...]] = {
    "max_tokens": _WHOLE,
    "temperature": _NUMBER,
    "top_p": _NUMBER,
    "top_k": _WHOLE,
    "min_p": _NUMBER,
    "presence_penalty": _NUMBER,
    "frequency_penalty": _NUMBER,
    "repetition_penalty": _NUMBER,
    "seed": _WHOLE,
    "min_tokens": _WHOLE,
    "ignore_eos": _FLAG,
    "logprobs": _WHOLE,
}
# Known to OpenAI's API, not offered here: accepted with these values only.
ONLY: dict[str, tuple[Any, ...]] = {
    "n": (1,),
    "best_of": (1,),
    "echo": (False,),
    "suffix": ("",),
    "logit_bias": ({},),
    "tools": ([],),
    "response_format": ({"type": "text"},),
}
OTHER = {
    "model",
    "prompt",
    "messages",
    "stream",
    "stream_options",
    "stop",
    "stop_token_ids",
    "user",
    "metadata",
    "store",
}


def sampling_params(body: dict) -> SamplingParams:
    """The sampling parameters of a body; ``max_tokens`` stays None when absent.

    Raises:
        InvalidRequest: for a field of the wrong type, and for one that this server does not know or offer.
    """
    body = {name: value for name, value in body.items() if value is not None}
    if "max_completion_tokens" in body:
        body["max_tokens"] = body.pop("max_completion_tokens")
    for name, value in body.items():
        _check_known(name, value)
    values = {name: body[name] for name in FIELDS if name in body}
    return SamplingParams(stop=_stops(body.get("stop", ())), stop_token_ids=_ids(body), **values)


def default_max_tokens(limits: Limits, prompt_tokens: int) -> int:
    """For a body without ``max_tokens``: what context and pool leave, at most 256."""
    return max(1, min(DEFAULT_MAX_TOKENS, limits.max_tokens - prompt_tokens))


def prompts(body: dict) -> list[str | list[int]]:
    """The prompts of a completion body: a text, token ids, or a list of either."""
    prompt = body.get("prompt")
    if isinstance(prompt, str) or _is_ids(prompt):
        return [prompt]
    if isinstance(prompt, list) and prompt and all(isinstance(one, str) or _is_ids(one) for one in prompt):
        return prompt
    raise InvalidRequest("prompt", "a text, a list of token ids, or a list of these", prompt)


def messages(body: dict) -> list[dict]:
    """The messages of a chat body; their contents are checked by the chat template."""
    found = body.get("messages")
    if not isinstance(found, list) or not found:
        raise InvalidRequest("messages", "a list of messages", found)
    return found


def flag(body: dict, name: str) -> bool:
    """A boolean field, False when absent."""
    value = body.get(name) or False
    if not isinstance(value, bool):
        raise InvalidRequest(name, "true or false", value)
    return value


def _check_known(name: str, value: Any) -> None:
    if name in FIELDS:
        kinds = FIELDS[name]
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            raise InvalidRequest(name, " or ".join(kind.__name__ for kind in kinds), value)
    elif name in ONLY:
        if value not in ONLY[name]:
            raise InvalidRequest(name, f"only {ONLY[name][0]!r} is offered", value)
    elif name not in OTHER:
        raise InvalidRequest(name, "no such field")


def _stops(stop: Any) -> tuple[str, ...]:
    stops = (stop,) if isinstance(stop, str) else stop
    if not isinstance(stops, list | tuple) or not all(isinstance(one, str) for one in stops):
        raise InvalidRequest("stop", "a text or a list of texts", stop)
    return tuple(stops)


def _ids(body: dict) -> tuple[int, ...]:
    ids = body.get("stop_token_ids", [])
    if ids and not _is_ids(ids):
        raise InvalidRequest("stop_token_ids", "a list of token ids", ids)
    return tuple(ids)


def _is_ids(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, int) and not isinstance(one, bool) for one in value)
