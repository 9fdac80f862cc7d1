"""The two estimators of article S1: as published, corrected, and beside what was measured. Every input is a widget."""

from collections.abc import Mapping

import streamlit as st

from lessons.audit import estimators as formulas
from lessons.audit.experiments.estimates import AVERAGE, COMPUTE_OPS, COVERAGE, MAXIMUM, MEMORY_OPS, ROWS, STEP_S
from lessons.audit.finding import Finding, quantity
from lessons.audit.registry import Sources, run
from lessons.audit.words import say
from lessons.figures import estimators as figures
from pages.parts.badge import BORDERS, badge, badge_html
from pages.parts.claims.measured import ROWS as RACE_ROWS
from pages.parts.kernel_lab.show import figure, table, theme
from pages.parts.page import kept
from pages.parts.words import language, sentences, t

DRAWS = 20_000  # lengths drawn to check the exact formula


def draw(known: Sources) -> None:
    """Both cards, side by side."""
    left, right = st.columns(2, gap="small")
    with left, st.container(border=True):
        _batching(known)
    with right, st.container(border=True):
        _fusion(known)


def _batching(known: Sources) -> None:
    st.subheader("estimate_inflight_batching_gain", anchor=False)
    st.caption(t("claims.est.batching_what"))
    first, second = st.columns(2)
    with first:
        longest = _number("longest", MAXIMUM, 1, 16_384)
        average = _number("average", min(AVERAGE, longest), 1, longest)
        kind = _select("kind", formulas.KINDS)
    with second:
        rows = _number("rows", ROWS, 1, 512)
        step_ms = _number("step_ms", round(1000 * STEP_S), 1, 1000)
    said = formulas.published_batching(average, longest, rows, step_ms / 1000)
    given = formulas.lengths(kind, average, longest)
    exact = given.gain(rows)
    drawn = formulas.sampled_gain(given.draw(DRAWS // rows * rows, seed=0), rows)
    _line(t("claims.est.published"), _published_words(said, ("static_util", "in_flight_util", "gain", "static_waste")))
    corrected = t("claims.est.batching_corrected", exact=f"{exact:.2f}", drawn=f"{drawn:.2f}", mean=f"{given.mean:.0f}")
    _line(t("claims.est.corrected"), corrected)
    finding = run("gain_2_to_5", known)
    point = None if finding is None else (RACE_ROWS, finding.numbers["gain"][0])
    _measured(finding, "race")
    words = _figure_words()
    summary = figures.batching_summary(said["gain"], given, point, words)
    figure(figures.batching_figure(said["gain"], given, point, theme(), words), "claims_est_batching", summary)
    st.markdown(summary)
    st.caption(t("claims.est.batching_note"))
    with st.expander(t("claims.est.table")):
        table(figures.batching_table(said["gain"], given, words), "claims_est_batching_table")


def _fusion(known: Sources) -> None:
    st.subheader("estimate_fusion_speedup", anchor=False)
    st.caption(t("claims.est.fusion_what"))
    first, second = st.columns(2)
    with first:
        memory_ops = _number("memory_ops", MEMORY_OPS, 1, 200)
        compute_ops = _number("compute_ops", COMPUTE_OPS, 1, 200)
    with second:
        coverage = _slider("coverage", COVERAGE, 0.0, 1.0)
        share = _slider("share", 0.1, 0.0, 1.0)
    said = formulas.published_fusion(memory_ops, compute_ops, coverage)
    by_time = formulas.fusion_by_time(share, coverage)
    _line(t("claims.est.published"), _published_words(said, ("memory", "compute", "overall")))
    words_of = {"x": f"{by_time:.2f}", "share": f"{100 * share:.0f}"}
    _line(t("claims.est.corrected"), t("claims.est.fusion_corrected", **words_of))
    finding = run("fusion_share", known)
    point = _fused(finding)
    _measured(finding, "kernels")
    words, given = _figure_words(), (memory_ops, compute_ops, coverage)
    summary = figures.fusion_summary(*given, point, words)
    figure(figures.fusion_figure(*given, point, theme(), words), "claims_est_fusion", summary)
    st.markdown(summary)
    st.caption(t("claims.est.fusion_note"))
    with st.expander(t("claims.est.table")):
        table(figures.fusion_table(*given, words), "claims_est_fusion_table")


def _fused(finding: Finding | None) -> tuple[float, float] | None:
    """Share of a layer that the fused operations take unfused, and the speed-up of fusing them, as measured."""
    if finding is None or "all_fused" not in finding.numbers:
        return None
    return finding.numbers["unfused"][0], finding.numbers["all_fused"][0]


def _published_words(said: Mapping[str, float], names: tuple[str, ...]) -> str:
    return " · ".join(f"`{name}` **{quantity(round(said[name], 2), '')}**" for name in names)


def _line(name: str, words: str) -> None:
    """A computed line: what it is, its badge, its numbers."""
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.markdown(f"**{name}**", width="content")
        with st.container(width="content"):
            badge("Computed")
        st.markdown(words, width="content")


def _measured(finding: Finding | None, name: str) -> None:
    """What was measured, with its origin; else what would measure it."""
    if finding is None:
        st.caption(t("claims.not_yet", what=t(f"claims.measure.{name}")))
        return
    st.html(f"<b>{t('claims.est.truth')}</b> {badge_html(finding.provenance, finding.where)}")
    st.markdown(say(finding, language()))


def _number(name: str, default: int, low: int, high: int) -> int:
    key = f"claims_est_{name}"
    value = int(kept(key, default))
    st.session_state[key] = min(max(value, low), high)
    return int(st.number_input(t(f"claims.est.{name}"), low, high, key=key, step=1))


def _slider(name: str, default: float, low: float, high: float) -> float:
    key = f"claims_est_{name}"
    kept(key, default)
    return st.slider(t(f"claims.est.{name}"), low, high, step=0.05, key=key)


def _select(name: str, options: tuple[str, ...]) -> str:
    key = f"claims_est_{name}"
    kept(key, options[0])
    return st.selectbox(
        t(f"claims.est.{name}"), options, key=key, format_func=lambda one: t(f"claims.est.{name}.{one}")
    )


def _figure_words() -> dict[str, str]:
    known = sentences(language())
    return {name: known[f"claims.fig.{name}"] for name in figures.WORDS} | {
        kind: t(f"badge.{kind}") for kind in BORDERS
    }
