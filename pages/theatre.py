"""The Theatre: watch the engine decide, live, paused, step by step or backwards.

The page mounts one component and is done; frames reach it through ``/flightdeck/live`` (``pages/parts/web``).
"""

import streamlit as st

from engine.trace.views import request_of
from pages.parts.engine_words import patterns
from pages.parts.page import tab, web_base
from pages.parts.words import language, sentences

_JS = """
const mounted = new WeakMap();
export default function ({ data, parentElement }) {
  const root = parentElement.querySelector(".fd");
  if (!mounted.has(root)) {
    const address = `${location.origin}${data.base}web/theatre.js`;
    mounted.set(root, import(address).then((module) => module.mount(root, data)));
  }
  return () => {
    mounted.get(root)?.then((theatre) => theatre.destroy());
    mounted.delete(root);
  };
}
"""

theatre = st.components.v2.component("theatre", html='<div class="fd"></div>', js=_JS, isolate_styles=False)


def _number(name: str) -> int | None:
    asked = st.query_params.get(name, "")
    return int(asked) if asked.isdigit() and int(asked) > 0 else None


theatre(
    data={
        "base": web_base(),
        "tab": tab(),
        "step": _number("step"),
        "request": request_of(st.query_params.get("request", "")),
        "recording": st.query_params.get("recording", ""),
        "run": _number("run"),
        "present": st.query_params.get("present") == "1",
        "language": language(),
        "words": sentences(language()),
        "said": patterns(language()),
    },
    key=f"theatre_{language()}",
)
