"""Opens the app: ``streamlit run app.py``. The main script stands in ``pages/``, so that deep links work on a fresh
server; the routes share its engine."""

import sys
from pathlib import Path

import streamlit as st

sys.path.insert(0, str(Path(__file__).resolve().parent))

from engine.serving import metrics, openai
from pages.parts import live
from pages.parts.desk import desk

driver = desk().session.started_driver
app = st.App("pages/main.py", routes=[*live.routes(desk()), *openai.routes(driver), *metrics.routes(driver)])
