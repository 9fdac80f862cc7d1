"""The Kernel Lab: the engine's kernels under their roofs, what fusing saves, attention tile by tile, 8-bit keys, values
and weights, the engine stage by stage, and the source.

Without a GPU it shows the recorded run; the tile stepper, the interpreter and the compiler work anywhere.
"""

import streamlit as st

from pages.parts.kernel_lab import engine_stages, kv_quant, sections, source, tiles, weight_quant
from pages.parts.page import kept
from pages.parts.words import t

SECTIONS = {
    "roofline": sections.roofline,
    "fusion": sections.fusion,
    "tiles": tiles.draw,
    "kv": kv_quant.draw,
    "weights": weight_quant.draw,
    "stages": engine_stages.draw,
    "source": source.draw,
}


def main() -> None:
    """Draw the page."""
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        title = st.container(width="stretch")
        chosen = _section()
    title.html(
        f"<h1 style='font-size:22px;padding:0;margin:0'>{t('kernel_lab.title')}</h1><div>{t('kernel_lab.sub')}</div>"
    )
    SECTIONS[chosen]()


def _section() -> str:
    """Which section is shown: ``?part=`` of the address at first, then the reader's choice."""
    asked = st.query_params.get("part")
    kept("kernel_lab_part", asked if asked in SECTIONS else "roofline")
    return st.segmented_control(
        t("kernel_lab.part"),
        list(SECTIONS),
        key="kernel_lab_part",
        format_func=lambda name: t(f"kernel_lab.part.{name}"),
        required=True,
        label_visibility="collapsed",
    )


main()
