"""What every page shares around its content: the width, the language, and which tab this is."""

import uuid

import streamlit as st

from pages.parts.words import LANGUAGES, language

_STYLE = """<style>
[data-testid="stMainBlockContainer"] { padding: 4.1rem 1.4rem 1rem; max-width: none; }
[data-testid="stMainBlockContainer"] [data-testid="stVerticalBlock"] { gap: 0.7rem; }
[data-testid="stHeading"] h1 { font-size: 1.7rem; padding: 0; }
[data-testid="stHeading"] h3 { font-size: 1.05rem; padding: 0 0 0.2rem; }
[data-testid="stMetricValue"] { font-size: 1.5rem; font-variant-numeric: tabular-nums; }
.fd-provenance { color: light-dark(#00724f, #3ccf9f); border-radius: 4px; padding: 0 6px; font-size: 12px;
  font-weight: 600; white-space: nowrap; }
</style>"""


def dress() -> None:
    """Style the page around its content."""
    st.html(_STYLE)


def tab() -> str:
    """A name for this browser tab: a Streamlit session lives as long as its tab."""
    return st.session_state.setdefault("tab", uuid.uuid4().hex)


def choose_language() -> None:
    """The language switch; the choice goes into the address, so that a link carries it."""
    others = {code: name for code, name in LANGUAGES.items() if code != language()}
    for code, name in others.items():
        if st.button(name, key=f"language_{code}", type="tertiary"):
            st.session_state["language"] = code
            st.query_params["lang"] = code
            st.rerun()


def kept(key: str, default: object) -> object:
    """The value of the widget ``key``, also after another page was shown meanwhile.

    Streamlit drops the state of a widget that is not drawn; call this before drawing it with the same key.
    """
    store = st.session_state.setdefault("kept", {})
    if key in st.session_state:
        store[key] = st.session_state[key]
    value = store.setdefault(key, default)
    st.session_state[key] = value
    return value
