"""The navigation over all pages. A page appears here once its file exists."""

import sys
from pathlib import Path

import streamlit as st

ROOT = Path(__file__).resolve().parent.parent
# First, also before this folder, which Streamlit puts there: ``lessons`` is the package, not the page.
sys.path[:] = [str(ROOT), *(path for path in sys.path if path != str(ROOT))]

from pages.parts.page import dress  # noqa: E402
from pages.parts.words import t  # noqa: E402

ICONS = {
    "home": ":material/home:",
    "lessons": ":material/school:",
    "theatre": ":material/theaters:",
    "arena": ":material/sports_score:",
    "kernel_lab": ":material/memory:",
    "claims": ":material/fact_check:",
}

st.set_page_config(page_title="Flightdeck", page_icon="🛫", layout="wide")
dress()


def page(name: str) -> st.Page:
    """The page of ``pages/<name>.py``."""
    return st.Page(ROOT / "pages" / f"{name}.py", title=t(f"page.{name}"), icon=ICONS[name], default=name == "home")


st.navigation([page(name) for name in ICONS if (ROOT / "pages" / f"{name}.py").exists()], position="top").run()
