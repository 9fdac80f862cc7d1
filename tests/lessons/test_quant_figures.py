"""The figures of 8-bit keys, values and weights, of the stages, of the losses and of the contestants."""

import pytest

from engine.workload.contestants import compared
from lessons.figures import contestants, kv_error, kv_quant, losses, stages, weight_quant
from tests.pages.sample_quant import sample_losses, sample_quant_run, sample_stages

LAYER = "4096 -> 28672"
WEIGHTS = {
    "model": "invented",
    "errors": [
        {"part": part, "group": group, "bits": 4 + 16 / group, "relative_error": 0.05 + group / 1e4}
        for part in ("qkv", "o", "gate_up", "down")
        for group in (32, 128)
    ],
}
CACHE = {
    "model": "invented",
    "tokens": 3,
    "errors": [
        {
            "format": form,
            "granularity": name,
            "key_error": 0.02,
            "value_error": error,
            "worst": 0.03,
            "scale_bytes": 0.1,
        }
        for form in ("int8", "fp8")
        for name, error in (("tensor", 0.03), ("head", 0.02), ("channel", 0.01), ("token and head", 0.015))
    ],
    "keys": {"layer": 1, "head": 0, "edges": [-1, 0, 1], "counts": [[1, 2], [3, 0]], "loudest": [0.5, 1], "spread": 2},
}
RACE = {
    "schedulers": {"in_flight": {"output_throughput": 100.0}},
    "contestants": {
        "whole": {"output_throughput": 80.0, "preemptions": 0},
        "http://127.0.0.1:1": {"output_throughput": 200.0, "failed": 1},
        "transformers": {"output_throughput": 20.0, "capped": True},
    },
}
DRAWN = {
    "time": lambda *how: kv_quant.time_figure(sample_quant_run(), *how),
    "weights": lambda *how: weight_quant.weight_figure(sample_quant_run(), LAYER, *how),
    "stages": lambda *how: stages.stages_figure(sample_stages(), *how),
    "losses": lambda *how: losses.losses_figure(sample_losses(), *how),
    "contestants": lambda *how: contestants.contestants_figure(compared(RACE), *how),
}


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("name", DRAWN)
def test_figures_name_their_provenance(name: str, theme: str) -> None:
    """Guards the badge, and figures that only work in one theme."""
    figure = DRAWN[name]("Recorded", theme, "somewhere")
    assert any("Recorded: somewhere" in (note.text or "") for note in figure.layout.annotations)
    assert figure.to_json()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_what_is_reckoned_says_so(theme: str) -> None:
    """Guards against a capacity that passes for a measurement, and errors without the model they are of."""
    assert "Computed" in str(kv_quant.capacity_figure(theme).layout.annotations)
    assert "Computed: invented" in str(weight_quant.group_figure(WEIGHTS, theme).layout.annotations)
    for draw in (kv_error.error_figure, kv_error.keys_figure):
        assert "Measured: invented" in str(draw(CACHE, theme).layout.annotations)


def test_tables_hold_what_the_figures_show() -> None:
    """Guards accessibility: a line for each mark."""
    lines = compared(RACE)
    tables = {
        9: [kv_quant.time_table(sample_quant_run()), weight_quant.weight_table(sample_quant_run(), LAYER)],
        4: [kv_quant.capacity_table(), contestants.contestants_table(lines)],
        8: [kv_error.error_table(CACHE), weight_quant.group_table(WEIGHTS)],
        6: [stages.stages_table(sample_stages())],
        10: [losses.losses_table(sample_losses())],
        2: [kv_error.keys_table(CACHE)],
    }
    for count, each in tables.items():
        assert all({len(column) for column in table.values()} == {count} for table in each), count


def test_words_say_what_is_seen() -> None:
    """Guards the text summaries: break-even, crossing, products of the stages, the largest loss, who did not finish."""
    run = sample_quant_run()
    said = kv_quant.time_summary(run)
    assert "int8 is faster from 310 tokens on" in said and "fp8 is faster at every context" in said
    assert "130 bytes, 50.8 %" in kv_quant.capacity_summary()
    assert "overtake near M =" in weight_quant.weight_summary(run, LAYER)
    assert "o: 5.3 % with a scale for each 32 inputs, 6.3 %" in weight_quant.group_summary(WEIGHTS)
    assert "Together 14.4x" in stages.stages_summary(sample_stages())
    assert "Largest loss: rows not full, 2,000" in losses.losses_summary(sample_losses())
    assert "values with one per channel of a head" in kv_error.error_verdict(CACHE)
    said = contestants.contestants_summary(compared(RACE))
    assert "transformers generate, PyTorch was stopped" in said and "127.0.0.1:1: 1 requests failed" in said


def test_a_run_without_8_bits_draws_nothing_false() -> None:
    """Guards the graceful case: no line, no sentence, an empty table."""
    run = sample_quant_run()
    run["results"] = [entry for entry in run["results"] if entry["kernel"] == "decode"]
    assert not kv_quant.time_figure(run, "Measured").data and not kv_quant.time_summary(run)
    assert not any(kv_quant.time_table(run).values())


def test_a_stage_that_loses_is_marked() -> None:
    """Guards a waterfall on which a loss looks like a gain: another pattern, and a factor below 1."""
    figure = stages.stages_figure(sample_stages(), "Measured")
    assert figure.data[-1].marker.pattern.shape == "/" and not figure.data[1].marker.pattern.shape
    assert any("x 0.90" in (note.text or "") for note in figure.layout.annotations)
