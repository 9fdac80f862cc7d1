"""The engine writes its sentences in English; here they are said in the reader's language.

The sentences stand in the catalogue as ``said.*``: the English one is the pattern, its ``{fields}`` are taken over and
said in turn (``9 blocks`` inside a longer sentence). ``pages/parts/web/words.js`` does the same in the browser.
"""

import re
from functools import cache

from pages.parts.words import LANGUAGES, catalogue, language


def said(text: str) -> str:
    """A sentence of the engine in the reader's language; one that the catalogue does not know stays as it is."""
    return said_in(language(), text)


def patterns(lang: str) -> list[list[str]]:
    """Pairs of English pattern and sentence, for components in the browser; none for readers of English."""
    return [] if lang == "en" else [[english, there] for english, there in _pairs(lang)]


def said_in(lang: str, text: str) -> str:
    """The same in a given language."""
    if lang == "en" or not text:
        return text
    for pattern, there in _compiled(lang):
        found = pattern.fullmatch(text)
        if found:
            return there.format(**{name: said_in(lang, value) for name, value in found.groupdict().items()})
    return text


def _pairs(lang: str) -> list[tuple[str, str]]:
    place = list(LANGUAGES).index(lang)
    return [(both[0], both[place]) for name, both in catalogue().items() if name.startswith("said.")]


@cache
def _compiled(lang: str) -> list[tuple[re.Pattern, str]]:
    def pattern(english: str) -> re.Pattern:
        pieces = re.split(r"\{(\w+)\}", english)
        return re.compile("".join(f"(?P<{p}>.+?)" if at % 2 else re.escape(p) for at, p in enumerate(pieces)))

    return [(pattern(english), there) for english, there in _pairs(lang)]
