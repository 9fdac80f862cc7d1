"""Findings in words: ``sentences.json`` holds ``{sentence: [English, Chinese]}`` with the numbers' names as fields."""

import json
from functools import cache
from pathlib import Path

from lessons.audit.finding import Finding, quantity
from lessons.audit.rows import LANGUAGES


@cache
def sentences() -> dict[str, list[str]]:
    """All sentences: id -> [English, Chinese]."""
    return json.loads((Path(__file__).parent / "sentences.json").read_text(encoding="utf-8"))


def say(finding: Finding, language: str) -> str:
    """The finding in one sentence or two. A number that the run did not bring is a dash."""
    shown = {name: quantity(*number) for name, number in finding.numbers.items()}
    return sentences()[finding.sentence][LANGUAGES.index(language)].format_map(_Dashes(shown))


class _Dashes(dict):
    def __missing__(self, name: str) -> str:
        return "–"
