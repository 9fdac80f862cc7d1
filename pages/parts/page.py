"""What every page shares around its content: the width, the language, and which tab this is."""

import uuid

import streamlit as st

from pages.parts.words import LANGUAGES, language

_STYLE = """<style>
[data-testid="stMainBlockContainer"] { padding: 3.7rem 1.4rem 1rem; max-width: none; }
[data-testid="stMainBlockContainer"] [data-testid="stVerticalBlock"] { gap: 0.7rem; }
[data-testid="stHeading"] h1 { font-size: 1.7rem; padding: 0; }
[data-testid="stHeading"] h3 { font-size: 1.05rem; padding: 0 0 0.2rem; }
[data-testid="stMetricValue"] { font-size: 1.5rem; font-variant-numeric: tabular-nums; }
.fd-provenance { color: light-dark(#00724f, #3ccf9f); border-radius: 4px; padding: 0 6px; font-size: 12px;
  font-weight: 600; white-space: nowrap; }
.fd-provenance[data-kind="Recorded"] { color: light-dark(#0072b2, #56b4e9); }
.fd-provenance:is([data-kind="Computed"], [data-kind="Simulated"], [data-kind="Schematic"]) {
  color: light-dark(#8a5a00, #f0b93a); }
.st-key-language { position: fixed; top: 1.1rem; right: 1.4rem; z-index: 999991; width: auto; }
.st-key-language button { min-height: 0; padding: 0.1rem 0.65rem; }
.st-key-home_hero h1 { font-size: 2rem; line-height: 1.15; }
.st-key-home_hero [data-testid="stCaptionContainer"] { margin-top: -0.45rem; }
.st-key-home_engine [data-testid="stVerticalBlock"] { gap: 0.45rem; }
.st-key-home_engine [role="radiogroup"] { display: grid; grid-template-columns: 1fr 1fr; align-items: start;
  gap: 0.2rem 1.4rem; }
.st-key-home_engine [data-testid="stWidgetLabel"] p { font-weight: 600; }
.fd-tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(7.4rem, 1fr)); gap: 0.5rem; }
.fd-tile { border: 1px solid color-mix(in srgb, currentColor 18%, transparent); border-radius: 8px;
  padding: 0.35rem 0.6rem; font-size: 0.78rem; line-height: 1.3; }
.fd-tile b { display: block; font-size: 1.12rem; font-weight: 650; font-variant-numeric: tabular-nums; }
.fd-tile[data-none="true"] b { opacity: 0.55; font-weight: 400; }
.fd-meter { height: 12px; border: 1px solid color-mix(in srgb, currentColor 45%, transparent); border-radius: 6px;
  overflow: hidden; margin: 0.45rem 0 0.2rem; }
.fd-meter i { display: block; height: 100%; background: #0072B2; }
.fd-works { display: grid; grid-template-columns: 1.2em 1fr; gap: 0.2rem 0.4rem; font-size: 0.86rem;
  margin-top: 0.6rem; }
.fd-memory { display: grid; gap: 3px; margin: 6px 0; }
.fd-memory div { min-width: 0; }
.fd-memory i { display: block; height: 24px; border: 1px solid currentColor; border-radius: 4px; }
.fd-memory span { display: block; font-size: 0.8rem; line-height: 1.3; padding-top: 3px; }
.fd-memory b { font-variant-numeric: tabular-nums; white-space: nowrap; }
</style>"""


def dress() -> None:
    """Style the page around its content, and offer the other languages beside the navigation."""
    st.html(_STYLE)
    with st.container(key="language"):
        choose_language()


def web_base() -> str:
    """Where the routes of ``pages/parts/live.py`` begin, as an absolute path: pages stand at several depths."""
    folder = (st.get_option("server.baseUrlPath") or "").strip("/")
    return f"/{folder}/flightdeck/" if folder else "/flightdeck/"


def tab() -> str:
    """A name for this browser tab: a Streamlit session lives as long as its tab."""
    return st.session_state.setdefault("tab", uuid.uuid4().hex)


def choose_language() -> None:
    """The language switch; the choice goes into the address, so that a link carries it."""
    others = {code: name for code, name in LANGUAGES.items() if code != language()}
    for code, name in others.items():
        if st.button(name, key=f"language_{code}", type="tertiary", icon=":material/translate:"):
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
