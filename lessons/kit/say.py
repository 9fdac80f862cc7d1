"""A sentence of a lesson: English in the lesson's source, its Chinese twin under the same id in ``lessons/zh``.

A twin file holds one piece after the other: a line ``%% id``, then the text up to the next such line.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

LANGUAGES = ("en", "zh")
TWINS = Path(__file__).resolve().parents[1] / "zh"
_HEAD = re.compile(r"^%% ([\w.-]+)\s*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Say:
    """One sentence; ``values`` fill its ``{fields}``. A value that is a sentence is said in the same language."""

    id: str
    english: str
    values: Mapping[str, object] = field(default_factory=dict, hash=False)

    def said(self, twin: Mapping[str, str]) -> str:
        """The sentence with its fields filled in, in the language of ``twin`` (empty: English)."""
        text = twin.get(self.id, self.english)
        if not self.values:
            return text
        return text.format(**{name: _value(value, twin) for name, value in self.values.items()})


def say(id: str, english: str, /, **values: object) -> Say:
    """The sentence ``english``, called ``id`` within its lesson, with ``{fields}`` to be filled by ``values``."""
    return Say(id, english, values)


@cache
def twin(name: str, lang: str) -> Mapping[str, str]:
    """The pieces of ``lessons/<lang>/<name>.md`` by id; none for English, and none where the file is missing."""
    path = TWINS.with_name(lang) / f"{name}.md"
    return {} if lang == "en" or not path.exists() else pieces(path.read_text(encoding="utf-8"))


def pieces(text: str) -> dict[str, str]:
    """The pieces of a twin file by id.

    Raises:
        ValueError: an id that stands twice.
    """
    parts = _HEAD.split(text)
    found = list(zip(parts[1::2], (part.strip() for part in parts[2::2])))
    twice = {id for id, _ in found if sum(id == other for other, _ in found) > 1}
    if twice:
        raise ValueError(f"ids used twice: {sorted(twice)}")
    return dict(found)


def _value(value: object, twin: Mapping[str, str]) -> object:
    return value.said(twin) if isinstance(value, Say) else value
