"""Mounts the board: drawing code comes from ``pages/parts/web/arena*.js``, the words from the catalogue."""

from functools import cache

import streamlit as st

from pages.parts.page import web_base
from pages.parts.words import language, sentences

_JS = """
let module = null;
export default function ({ data, parentElement }) {
  const root = parentElement.querySelector(".ar");
  module ??= import(`${location.origin}${data.base}web/arena.js`);
  module.then((arena) => arena.show(root, data));
  return () => module.then((arena) => arena.leave(root));
}
"""
# The sentences that the drawing itself needs; all others stand in the board.
WORDS = (
    "kind.useful kind.prefill kind.padded kind.idle lanes tps done_at useful_share finished_of hidden not_yet request "
    "play pause again end scrub speed clock hero.racing hint why_sub measured measured_is latency latency_sub table"
)


def draw(board: dict, key: str = "arena_board") -> None:
    """Draw ``board`` (see ``pages.parts.arena.board``), or update the one that is there under this key."""
    known = sentences(language())
    ids = [f"arena.{name}" for name in WORDS.split()] + ["check.title", "check.all_agree", "check.some_fail"]
    words = {name: known[name] for name in ids}
    _component()(data=board | {"base": web_base(), "words": words}, key=key)


@cache
def _component():  # noqa: ANN202 - the renderer's type is internal to Streamlit
    return st.components.v2.component("arena", html='<div class="fd ar"></div>', js=_JS, isolate_styles=False)
