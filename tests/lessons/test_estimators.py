"""Acceptance test 6: the two published estimators to the digit, and the corrected ones against Monte Carlo."""

import pytest

from lessons.audit.estimators import (
    KINDS,
    amdahl,
    fusion_by_time,
    lengths,
    published_batching,
    published_fusion,
    sampled_gain,
)
from lessons.figures import estimators as figures


def test_the_published_batching_estimate() -> None:
    """Guards the figures of the article: .25, .45, 1.8, 384.0; and that batch and step time change nothing."""
    said = published_batching(256, 1024, 32, 0.05)
    assert said == pytest.approx({"static_util": 0.25, "in_flight_util": 0.45, "gain": 1.8, "static_waste": 384.0})
    assert published_batching(256, 1024, 7, 3.0) == pytest.approx(said)
    assert published_batching(900, 1024, 32, 0.05)["gain"] < 1.8  # the cap


def test_the_published_fusion_estimate() -> None:
    """Guards 1.92, 1.09, 1.61, and 1.14 when memory-bound operations take 10 % of the time."""
    said = published_fusion(15, 5, 0.8)
    assert [round(said[name], 2) for name in ("memory", "compute", "overall")] == [1.92, 1.09, 1.61]
    assert round(fusion_by_time(0.1, 0.8), 2) == 1.14
    assert fusion_by_time(15 / 20, 0.8) == pytest.approx(said["overall"])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rows", [1, 8, 32])
def test_the_corrected_gain_is_what_draws_give(kind: str, rows: int) -> None:
    """Guards the exact formula E[longest of B] / E[length] within 1 % of Monte Carlo."""
    given = lengths(kind, 256, 1024)
    assert given.gain(rows) == pytest.approx(sampled_gain(given.draw(40_000 * rows, seed=1), rows), rel=0.01)


def test_equal_lengths_and_single_rows_gain_nothing() -> None:
    """Guards the null result."""
    assert lengths("equal", 256, 1024).gain(32) == pytest.approx(1) == lengths("exponential", 256, 1024).gain(1)


@pytest.mark.parametrize(("kind", "average", "longest"), [("normal", 1, 2), ("equal", 0, 2), ("equal", 3, 2)])
def test_bad_lengths_name_the_argument(kind: str, average: int, longest: int) -> None:
    """Guards a chart of nonsense."""
    with pytest.raises(ValueError, match=r"kind|average"):
        lengths(kind, average, longest)


def test_amdahl_by_time() -> None:
    """Guards the weights: a part of half the time that is three times as slow unfused doubles the whole."""
    assert amdahl({"norm": 1.0, "products": 1.0}, {"norm": 3.0}) == pytest.approx(2.0)
    assert amdahl({"norm": 1.0, "products": 1.0}, {"norm": 3.0}, coverage=0.5) == pytest.approx(4 / 3)
    assert amdahl({"norm": 1.0}, {}) == 1.0


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("measured", [None, (8.0, 1.9)])
def test_figures_say_computed_and_have_words_and_a_table(theme: str, measured: tuple[float, float] | None) -> None:
    """Guards honesty and accessibility: a badge, a diamond only for what was measured, every line in the table."""
    given = lengths("exponential", 256, 1024)
    for figure in (
        figures.batching_figure(1.8, given, measured, theme),
        figures.fusion_figure(15, 5, 0.8, measured, theme),
    ):
        assert figure.layout.annotations[-1].text == "Computed"
        assert sum(trace.mode != "lines" for trace in figure.data) == (measured is not None)
    assert ("Measured" in figures.batching_summary(1.8, given, measured)) == (measured is not None)
    assert ("Measured" in figures.fusion_summary(15, 5, 0.8, measured)) == (measured is not None)
    assert len(set(map(len, figures.batching_table(1.8, given).values()))) == 1
    assert len(set(map(len, figures.fusion_table(15, 5, 0.8).values()))) == 1
