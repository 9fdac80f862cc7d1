"""Chat templates: a model's own Jinja source turns messages into the text that it was trained on.

The environment offers what transformers offers to templates, in Jinja's sandbox, because a template comes with a
checkpoint and is not our code.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any

from jinja2 import Template, TemplateError
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

from engine.errors import InvalidRequest


def render(template: str, messages: Sequence[Mapping[str, Any]], special_tokens: Mapping[str, str]) -> str:
    """The prompt of a conversation, ending where the assistant speaks.

    Raises:
        InvalidRequest: the messages are malformed, or the template rejects them.
    """
    for message in messages:
        if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
            raise InvalidRequest("messages", "a list of objects with role and content", message)
    try:
        return _compile(template).render(messages=list(messages), add_generation_prompt=True, **special_tokens)
    except (TemplateError, TypeError) as error:
        raise InvalidRequest("messages", f"the model's chat_template rejects them ({error})") from error


@lru_cache(maxsize=4)
def _compile(template: str) -> Template:
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _refuse
    environment.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
    return environment.from_string(template)


def _to_json(value: object, indent: int | None = None, **options: object) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent, **options)


def _refuse(message: str) -> None:
    raise TemplateError(message)
