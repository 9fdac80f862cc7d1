"""Plotly figures for pages and notebooks. No Streamlit; every figure names its provenance and has words and a table."""
