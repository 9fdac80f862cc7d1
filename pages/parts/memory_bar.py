"""Where the memory of the device goes: one bar, the same as a table beneath."""

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
MOSTLY = 0.9  # a larger free part is written beside the bar: drawn, it would leave no room for the others


def memory_bar(parts: dict[str, int]) -> None:
    """Draw the memory map.

    Args:
        parts: bytes by use, in the order drawn.
    """
    total = sum(parts.values()) or 1
    shown = {name: size for name, size in parts.items() if size > 0}
    drawn = {name: size for name, size in shown.items() if name != "free" or size < MOSTLY * total}
    bars = "".join(_bar(name, size / sum(drawn.values())) for name, size in drawn.items())
    keys = " ".join(_key(name, size) for name, size in shown.items())
    style = "display:flex;height:22px;border:1px solid currentColor;border-radius:5px;overflow:hidden;margin:6px 0"
    heading = f"<b>{escape(t('memory.title'))}</b> {badge_html('Measured')}"
    st.html(f'{heading}<div role="img" aria-label="{escape(t("memory.title"))}" style="{style}">{bars}</div>{keys}')
    with st.expander(t("memory.table")):
        rows = "\n".join(
            f"| {words(name)} | {size / 2**20:,.1f} MiB | {size / total:.1%} |" for name, size in parts.items()
        )
        st.markdown(f"| | MiB | % |\n| --- | ---: | ---: |\n{rows}")


def words(name: str) -> str:
    """The name of a part in the reader's language; an unknown one as it is."""
    return t(f"memory.{name}") if f"memory.{name}" in catalogue() else name


def _bar(name: str, share: float) -> str:
    return f'<i style="width:{100 * share:.3f}%;background:{COLOURS.get(name, OTHER)}"></i>'


def _key(name: str, size: int) -> str:
    box = f"display:inline-block;width:12px;height:12px;border:1px solid;background:{COLOURS.get(name, OTHER)}"
    amount = f"{size / 2**30:.1f} GiB" if size >= 2**30 else f"{size / 2**20:.1f} MiB"
    text = f"{escape(words(name))} {amount}"
    return f'<span style="font-size:0.82rem;margin-right:14px;white-space:nowrap"><i style="{box}"></i> {text}</span>'
