"""What is read from runs about 8-bit keys, values and weights, and the errors of a cache."""

import pytest
import torch

from engine.workload import kv_curves, kv_error, weight_curves
from engine.workload.contestants import compared
from tests.pages.sample_kernels import sample_run
from tests.pages.sample_quant import CONTEXTS, INTERCEPTS, SLOPES, sample_quant_run

T, H, D = 40, 2, 32


@pytest.fixture(scope="module")
def keys() -> torch.Tensor:
    """Keys (T, H, D) of which one channel of the second head is fifty times as loud."""
    made = torch.randn(T, H, D, generator=torch.Generator().manual_seed(1))
    made[:, 1, 5] *= 50
    return made


def test_the_fitted_lines_are_those_of_the_run() -> None:
    """Guards the slope and the intercept, and that all formats are compared at the same rows and heads."""
    where, found = kv_curves.lines(sample_quant_run())
    assert where == "64 rows, 16/8 heads" and [line.form for line in found] == ["bf16", "int8", "fp8"]
    for line, kernel in zip(found, INTERCEPTS, strict=True):
        assert (line.intercept_us, line.slope_us) == pytest.approx((INTERCEPTS[kernel], SLOPES[kernel]))
        assert line.contexts == CONTEXTS


def test_break_even() -> None:
    """Guards the context from which on 8 bits pay: the lines cross there; none where the slope is no smaller."""
    plain, int8, fp8 = kv_curves.lines(sample_quant_run())[1]
    even = kv_curves.break_even(plain, int8)
    assert plain.at(even) == pytest.approx(int8.at(even))
    assert kv_curves.break_even(plain, fp8) == 0
    assert kv_curves.break_even(int8, plain) is None
    point = kv_curves.Line("int8", (64,), (1.0,), None, None)
    assert kv_curves.break_even(plain, point) is None


@pytest.mark.parametrize("read", [lambda run: kv_curves.lines(run)[1], weight_curves.curves])
def test_a_run_without_them_has_no_curves(read: object) -> None:
    """Guards against curves of a run that lacks the formats, and of one that timed the plain references."""
    assert not read(sample_run())
    references = sample_quant_run()
    references["meta"]["config"]["ceilings"] = references["meta"]["config"]["ceilings"] | {"launch_graph_s": 0.0}
    assert not read(references)


def test_capacity_counts_the_scales() -> None:
    """Guards the half that is none: 130 bytes of 256 with the fp16 scale of a token and head."""
    found = {entry["format"]: entry for entry in kv_curves.capacity()}
    assert found["int8"]["head_bytes"] == found["fp8"]["head_bytes"] == 130
    assert found["int8"]["of_bf16"] == pytest.approx(0.508, abs=5e-4)
    assert found["bf16"]["tokens_per_gib"] == (1 << 30) // (28 * 2 * 8 * 256)


def test_where_16_bits_overtake() -> None:
    """Guards the crossing: between the two points on whose sides it lies, or nowhere in the run."""
    (layer,) = weight_curves.curves(sample_quant_run()).values()
    crossing = {curve.form: curve.crossing for curve in layer}
    assert crossing["int8"] is None and crossing["fp8"] is None and 16 < crossing["int4"] < 64


def test_a_loud_channel_costs_those_that_share_its_scale(keys: torch.Tensor) -> None:
    """Guards the lesson of the histogram: with a scale per channel the loud one spoils only itself."""
    found = {(each["format"], each["granularity"]): each for each in kv_error.errors([(keys, keys[:, :1])])}
    error = {name: found["int8", name]["key_error"] for name in kv_error.GRANULARITIES}
    assert error["channel"] < error["token and head"] < error["head"] <= error["tensor"]
    assert found["int8", "token and head"]["scale_bytes"] == 2 / D
    assert found["int8", "channel"]["scale_bytes"] == 2 / T
    assert all(each["worst"] >= max(each["key_error"], each["value_error"]) - 1e-9 for each in found.values())


def test_the_histogram_shows_the_loud_channel(keys: torch.Tensor) -> None:
    """Guards the picture: the right head, every token of every channel in a bin, the loudest channel named."""
    found = kv_error.histogram(keys)
    assert found["head"] == 1 and found["loudest"].index(max(found["loudest"])) == 5 and found["spread"] > 10
    assert all(sum(bins) == T for bins in found["counts"]) and len(found["edges"]) == kv_error.BINS + 1


def test_contestants_stand_beside_the_same_run() -> None:
    """Guards the reference: in-flight of the same process is 1, whoever is faster stands first."""
    found = {"whole": {"output_throughput": 50.0}, "http://127.0.0.1:1": {"output_throughput": 200.0, "failed": 2}}
    found["transformers"] = {"output_throughput": 25.0, "capped": True}
    lines = compared({"schedulers": {"in_flight": {"output_throughput": 100.0}}, "contestants": found})
    assert [(line["kind"], line["times"]) for line in lines] == [
        ("server", 2.0),
        ("ours", 1.0),
        ("ours", 0.5),
        ("transformers", 0.25),
    ]
    assert lines[0]["failed"] == 2 and lines[-1]["capped"] and lines[1]["median_ttft_ms"] is None
