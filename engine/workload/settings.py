"""Changes of the scheduling configuration as somebody asks for them."""

from collections.abc import Mapping
from dataclasses import fields, replace

from engine.config import SchedulingConfig
from engine.errors import InvalidRequest

# What decides, and may therefore be asked about. Sizes that the worker was built for are not among them.
SETTINGS = tuple(field.name for field in fields(SchedulingConfig) if field.name not in ("block_size", "graph_buckets"))


def changed(scheduling: SchedulingConfig, changes: Mapping[str, object]) -> SchedulingConfig:
    """The configuration with ``changes``. Raises ``InvalidRequest`` with the settings there are, or the values."""
    for name in changes:
        if name not in SETTINGS:
            raise InvalidRequest("setting", f"one of {', '.join(SETTINGS)}", name)
    return replace(scheduling, **changes).validate()


def parse_change(text: str, scheduling: SchedulingConfig) -> tuple[str, object]:
    """A change as somebody types it: ``capacity=guaranteed-no-evict``, ``pool_blocks=100`` or ``pool_blocks=+10%``.

    Raises:
        InvalidRequest: not of that form, no such setting, or not a value of its type.
    """
    name, equals, value = text.partition("=")
    name = name.strip().replace("-", "_")
    if not equals or name not in SETTINGS:
        raise InvalidRequest("set", f"SETTING=VALUE with one of {', '.join(SETTINGS)}", text)
    present = getattr(scheduling, name)
    try:
        return name, _value(value.strip(), present)
    except ValueError as error:
        percent = ", or a change such as +10%" if type(present) in (int, float) else ""
        raise InvalidRequest(name, f"a value such as {present!r}{percent}", value) from error


def _value(text: str, present: object) -> object:
    """``text`` as a value of the type of ``present``; a change in percent is taken of it."""
    if isinstance(present, bool):
        return _flag(text)
    if isinstance(present, str):
        return text
    if isinstance(present, tuple):
        return tuple(int(part) for part in text.split(",") if part)
    kind = type(present)
    if text.endswith("%"):
        return kind(round(present * (1 + float(text[:-1]) / 100), 6))
    return kind(text)


def _flag(text: str) -> bool:
    if text.lower() not in ("on", "off", "true", "false"):
        raise ValueError(text)
    return text.lower() in ("on", "true")
