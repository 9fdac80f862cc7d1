"""Every sentence of the pages, by stable id, in English and Chinese.

The sentences stand in ``catalogue/*.json`` as ``{"id": [English, Chinese]}``. The language is the ``?lang=`` of the
address, else the one chosen before in this tab, else English. Numbers and code are not translated.
"""

import json
from functools import cache
from pathlib import Path

import streamlit as st

LANGUAGES = {"en": "English", "zh": "中文"}
_FOLDER = Path(__file__).parent / "catalogue"


@cache
def catalogue() -> dict[str, list[str]]:
    """All sentences: id -> [English, Chinese]. An id stands in one file only."""
    sentences: dict[str, list[str]] = {}
    for path in sorted(_FOLDER.glob("*.json")):
        page = json.loads(path.read_text(encoding="utf-8"))
        twice = sentences.keys() & page.keys()
        if twice:
            raise ValueError(f"{path.name}: ids used twice: {sorted(twice)}")
        sentences |= page
    return sentences


def language() -> str:
    """The reader's language, kept for the tab once the address named it."""
    asked = st.query_params.get("lang")
    if asked in LANGUAGES:
        st.session_state["language"] = asked
    return st.session_state.get("language", "en")


def sentences(lang: str) -> dict[str, str]:
    """All sentences of one language, for components that run in the browser."""
    place = list(LANGUAGES).index(lang)
    return {name: both[place] for name, both in catalogue().items()}


def t(name: str, /, **values: object) -> str:
    """The sentence ``name`` in the reader's language with ``{fields}`` filled in. Unknown id: ``KeyError``."""
    return catalogue()[name][list(LANGUAGES).index(language())].format(**values)
