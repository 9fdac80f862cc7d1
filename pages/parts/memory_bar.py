"""Where the memory of the device goes: one bar whose parts carry their names, the same as a table beneath.

The parts are drawn by size, but none smaller than its label: a part of a per mille is still seen, and its number says
how large it is.
"""

from html import escape

import streamlit as st

from pages.parts.badge import badge_html
from pages.parts.words import catalogue, t

COLOURS = {
    "weights": "#0072B2",
    "kv_pool": "#009E73",
    "activations": "#E69F00",
    "graphs": "#CC79A7",
    "context": "#999999",
    "free": "transparent",
}
OTHER = "#7A6FD0"
LEAST_EM = 8.5  # width of the smallest part, so that its name and size fit beneath it


def memory_bar(parts: dict[str, int]) -> None:
    """Draw the memory map.

    Args:
        parts: bytes by use, in the order drawn.
    """
    total = sum(parts.values()) or 1
    shown = {name: size for name, size in parts.items() if size > 0}
    columns = " ".join(f"minmax({LEAST_EM}em, {size / total:.5f}fr)" for size in shown.values())
    cells = "".join(_cell(name, size, total) for name, size in shown.items())
    heading = f"<b>{escape(t('memory.title'))}</b> {badge_html('Measured')}"
    names = ", ".join(f"{words(name)} {amount(size)}" for name, size in shown.items())
    label = escape(f"{t('memory.title')}: {names}")
    style = f"grid-template-columns:{columns}"
    grid = f'<div class="fd-memory" role="img" aria-label="{label}" style="{style}">{cells}</div>'
    st.html(f"{heading}{grid}<small>{escape(t('memory.least'))}</small>")
    with st.expander(t("memory.table")):
        rows = "\n".join(
            f"| {words(name)} | {size / 2**20:,.1f} MiB | {size / total:.2%} |" for name, size in parts.items()
        )
        st.markdown(f"| | MiB | % |\n| --- | ---: | ---: |\n{rows}")


def words(name: str) -> str:
    """The name of a part in the reader's language; an unknown one as it is."""
    return t(f"memory.{name}") if f"memory.{name}" in catalogue() else name


def amount(size: int) -> str:
    """Bytes with a unit."""
    return f"{size / 2**30:.1f} GiB" if size >= 2**30 else f"{size / 2**20:.1f} MiB"


def _cell(name: str, size: int, total: int) -> str:
    share = f"{size / total:.1%}" if size / total >= 0.001 else "< 0.1%"
    text = f"{escape(words(name))} <b>{amount(size)}</b> ({share})"
    return f'<div><i style="background:{COLOURS.get(name, OTHER)}"></i><span>{text}</span></div>'
