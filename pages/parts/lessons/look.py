"""How the lessons look: three columns on a wide screen, one flow on a small one, larger type for a projector."""

import streamlit as st

_STYLE = """<style>
.st-key-lesson_body { display: grid; gap: 1.1rem; align-items: start;
  grid-template-columns: 15.5rem minmax(0, 46rem) minmax(0, 1fr); }
.st-key-lesson_body > * { min-width: 0; width: 100%; }
.st-key-lesson_outline, .st-key-lesson_panel { position: sticky; top: 4.4rem; }
.st-key-lesson_bar { border-bottom: 1px solid color-mix(in srgb, currentColor 16%, transparent);
  padding-bottom: 0.5rem; }
.st-key-lesson_bar h1 { font-size: 1.35rem; padding: 0; margin: 0; line-height: 1.25; }
.st-key-lesson_outline button { justify-content: flex-start; text-align: left; padding: 0.16rem 0.45rem;
  min-height: 0; }
.st-key-lesson_outline button > div, .st-key-lesson_outline button [data-testid="stMarkdownContainer"] {
  justify-content: flex-start; width: 100%; text-align: left; }
.st-key-lesson_outline [data-testid="stVerticalBlock"], .st-key-lesson_outline { gap: 0.15rem; }
.st-key-lesson_cells [data-testid="stMarkdownContainer"] { font-size: 1.02rem; line-height: 1.62; }
.st-key-lesson_cells [data-testid="stHeading"] h2 { font-size: 1.45rem; padding: 0 0 0.35rem; }
.st-key-lesson_cells [data-testid="stMarkdownContainer"] h1,
.st-key-lesson_cells [data-testid="stMarkdownContainer"] h2 { font-size: 1.45rem; padding: 0 0 0.5rem; }
.ls-kind { font-size: 0.78rem; letter-spacing: 0.04em; opacity: 0.75; }
.ls-table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; font-size: 0.95rem; }
.ls-table th, .ls-table td { text-align: right; padding: 0.32rem 0.5rem;
  border-bottom: 1px solid color-mix(in srgb, currentColor 15%, transparent); }
.ls-table th:first-child, .ls-table td:first-child { text-align: left; }
.ls-table th { font-weight: 600; font-size: 0.82rem; vertical-align: bottom; }
.ls-table .ls-far { font-weight: 700; border-left: 3px solid currentColor; }
.ls-table td:not(:first-child) { white-space: nowrap; }
.ls-sources { font-size: 0.82rem; margin-top: 0.5rem; line-height: 1.9; }
.ls-title { display: flex; flex-wrap: wrap; gap: 0.3rem 0.8rem; justify-content: space-between;
  align-items: center; font-size: 1.05rem; }
.st-key-lesson_cells textarea { font-family: ui-monospace, "DejaVu Sans Mono", monospace; font-size: 0.92rem;
  line-height: 1.5; tab-size: 4; }
.st-key-lesson_takeaway { border-left: 5px solid #0072B2; font-size: 1.1rem; }
.ls-count { font-size: 0.95rem; font-variant-numeric: tabular-nums; white-space: nowrap; }
@media (max-width: 1560px) {
  .st-key-lesson_body { grid-template-columns: 12.5rem minmax(0, 1fr); grid-template-rows: auto 1fr; }
  .st-key-lesson_body > :has(> .st-key-lesson_outline) { grid-row: 1 / span 2; }
  .st-key-lesson_body > :has(> .st-key-lesson_panel) { grid-column: 2; }
  .st-key-lesson_panel { position: static; }
}
@media (max-width: 900px) {
  .st-key-lesson_body { grid-template-columns: minmax(0, 1fr); }
  .st-key-lesson_body > :has(> .st-key-lesson_outline) { grid-row: 3; }
  .st-key-lesson_body > :has(> .st-key-lesson_panel) { grid-column: 1; }
  .st-key-lesson_outline { position: static; }
}
</style>"""
_PRESENT = """<style>
:root:root { font-size: 22.4px !important; }
.ls-count { font-size: 1.6rem; font-weight: 700; }
.ls-sources .fd-provenance, .ls-title .fd-provenance { font-size: 0.8rem !important; }
.st-key-lesson_body { grid-template-columns: minmax(0, 5fr) minmax(0, 6fr); grid-template-rows: auto auto; }
.st-key-lesson_body > :has(> .st-key-lesson_outline) { grid-row: 2; grid-column: 1 / -1; }
.st-key-lesson_body > :has(> .st-key-lesson_panel) { grid-column: 2; }
.st-key-lesson_outline, .st-key-lesson_panel { position: static; }
.st-key-lesson_outline { display: grid; grid-template-columns: repeat(auto-fill, minmax(14rem, 1fr)); }
@media (max-width: 1560px) {
  .st-key-lesson_body { grid-template-columns: minmax(0, 1fr); grid-template-rows: none; }
  .st-key-lesson_body > :has(> .st-key-lesson_outline) { grid-row: 3; }
  .st-key-lesson_body > :has(> .st-key-lesson_panel) { grid-column: 1; }
}
</style>"""


def dress(present: bool) -> None:
    """Style the page; ``present`` for a projector: type 1.4 times as large."""
    st.html(_STYLE + (_PRESENT if present else ""))
