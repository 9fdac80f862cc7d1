"""Figures of the Arena: complete, readable without colour, honest about where the numbers come from."""

import math

import pytest

from lessons.figures import factors, lanes, latency
from lessons.figures.style import FACTOR_FILLS, INKS, ROW_STEPS, SCHEDULERS


def a_run(seconds):
    lane = [["prefill", 0, 0.2, 0], ["useful", 0.2, 1.0, 0], ["padded", 1.0, seconds, 0]]
    other = [["prefill", 0, 0.2, 1], ["useful", 0.2, seconds, 1], ["idle", 1.5, 1.5001, -1]]
    return {
        "duration_s": seconds,
        "output_throughput": 300 / seconds,
        "row_steps": {"useful": 60, "padded": 20, "late": 0, "idle": 20, "decode": 50, "prefill": 10},
        "lanes": [lane, other],
        "requests": [{"e2el_ms": 1000.0 * n, "ttft_ms": 100.0 * n} for n in (1, 2, 3)],
    }


@pytest.fixture
def results():
    measured = {"ideal": 2.6, "drain": 0.8, "step_shape": 1.05, "prefill": 0.96, "idle": 1.0}
    predicted = measured | {"prefill": 0.9}
    runs = {name: a_run(seconds) for name, seconds in zip(SCHEDULERS, (4.0, 3.0, 4.0, 2.0))}
    gain = math.prod(measured.values())
    return {
        "schedulers": runs,
        "gain": gain,
        "bound": 2.55,
        "factors": measured,
        "predicted_factors": predicted,
        "tokens_identical": True,
    }


@pytest.mark.parametrize("theme", INKS)
@pytest.mark.parametrize("make", [lanes.lanes_figure, factors.factor_bars, latency.latency_strip])
def test_every_figure_shows_its_provenance(results, make, theme):
    """Guards the promise that a number says whether it was measured, recorded or simulated."""
    figure = make(results, provenance="Recorded", theme=theme, source="H200")
    assert any(note.text == "Recorded: H200" for note in figure.layout.annotations)
    assert figure.layout.title.text and figure.layout.paper_bgcolor == "rgba(0,0,0,0)"
    assert figure.to_json()


def test_kinds_differ_by_more_than_colour():
    """Guards colour-blind readers: wasted and empty row-steps have a pattern or an outline of their own."""
    looks = [(fill.pattern, fill.solid) for fill in ROW_STEPS.values()]
    assert looks.count(("", True)) == 2  # useful and prefill: dark and light of one hue, told apart by lightness
    assert len({fill.pattern for fill in FACTOR_FILLS.values()}) == len(FACTOR_FILLS)
    assert len({fill.color for fill in ROW_STEPS.values()}) == len(ROW_STEPS)


def test_lanes_keep_every_segment_but_slivers_of_idle(results):
    """Guards the bands: four schedulers on one clock, each with its segments; an idle sliver is only an outline."""
    figure = lanes.lanes_figure(results)
    drawn = sum(len(trace.x) for trace in figure.data)
    assert drawn == 4 * 5
    assert len({trace.name for trace in figure.data}) == 4
    assert all(axis.range[0] == 0 for axis in figure.select_xaxes())


def test_factor_bars_chain_to_the_gain(results):
    """Guards the waterfall: each bar begins where the last ended, and the last ends at the measured gain."""
    bars = [trace for trace in factors.factor_bars(results).data if trace.type == "bar"]
    edges = [(bar.base[0], bar.base[0] + bar.x[0]) for bar in bars]
    product = 1.0
    for (low, high), value in zip(edges, results["factors"].values()):
        after = product * value
        assert (low, high) == pytest.approx((min(product, after), max(product, after)), abs=1e-5)
        product = after
    assert edges[-1][1] == pytest.approx(results["gain"])


def test_null_result_is_said_plainly(results):
    """Guards the null result: equal lengths must not be dressed up as a small win."""
    results |= {"bound": 1.0, "gain": 1.02}
    assert "that is none" in factors.factor_summary(results)
    assert factors.factor_bars(results).layout.title.text == "Equal lengths: nothing to gain"


def test_words_and_tables_carry_the_numbers(results):
    """Guards readers without the picture: every figure has a sentence and a table."""
    assert "in-flight: 150 tok/s" in lanes.lanes_summary(results) and "60 %" in lanes.lanes_summary(results)
    assert lanes.lanes_table(results)["useful %"][0] == 60.0
    assert "median 2.00 s" in latency.latency_summary(results)
    assert latency.latency_table(results, "ttft_ms")["p50"][0] == 0.2
    fourth = {head: column[3] for head, column in factors.factor_table(results).items()}
    assert fourth == {"factor": "prefill", "measured": 0.96, "predicted": 0.9, "off by %": 6.7}
