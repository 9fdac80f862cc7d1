"""What formats cost and gain, as numbers: curves, the report of ``bench quantize``, and its refusal."""

import json

import pytest
import torch

from engine.__main__ import main
from engine.workload import quant_report
from engine.workload.quant_curves import crossing, error_against_group, time_against_rows

KEYS = {"format", "weight_bytes", "dense_bytes", "worst", "layers", "tokens", "agreed", "kl", "logit_gap"}


def test_the_crossing_is_where_16_bits_stay_faster() -> None:
    """Guards a single slow point in the middle, which is no crossing, and a format that wins to the end."""
    curve = [{"rows": rows, "ratio": ratio} for rows, ratio in ((1, 3.0), (16, 0.9), (64, 1.1), (128, 0.8), (256, 0.7))]
    assert crossing(curve) == 128
    assert crossing(curve[:3]) is None


def test_time_is_measured_for_every_number_of_tokens() -> None:
    """Guards the data of the lesson: both sides are timed, and the ratio is theirs."""
    curve = time_against_rows("int4", 64, 256, "cpu", rows=(1, 3))
    assert [point["rows"] for point in curve] == [1, 3]
    assert all(point["ratio"] == point["dense_us"] / point["us"] > 0 for point in curve)


def test_error_grows_with_the_group() -> None:
    """Guards the other curve: fewer scales, fewer bits, more error; groups that do not divide K are filled up."""
    weight = torch.randn(16, 1000, generator=torch.Generator().manual_seed(0))
    weight[:, ::50] *= 6
    curve = error_against_group(weight)
    errors, bits = ([point[name] for point in curve] for name in ("relative_error", "bits"))
    assert errors == sorted(errors) and bits == sorted(bits, reverse=True) and bits[2] == 4.125
    assert not any(torch.tensor(errors).isnan())


def test_errors_are_listed_by_layer() -> None:
    """Guards the table: layers in order of number, not of name."""
    errors = {f"model.layers.{n}.mlp.up_proj.weight": n / 10 for n in (10, 2)}
    assert quant_report.by_layer(errors) == [{"layer": 2, "up_proj": 0.2}, {"layer": 10, "up_proj": 1.0}]


@pytest.mark.parametrize("form", ("int8", "int4"))
def test_the_report_compares_two_models(form: str, tmp_path) -> None:
    """Guards ``bench quantize``: the dense model judges answers of the quantised one, and int8 hardly moves them."""
    tiny = ("--random-weights", "tiny", "--device", "cpu", "--dtype", "fp32", "--json", str(tmp_path / "report"))
    sizes = ("--requests", "2", "--prompt-tokens", "9", "--output-tokens", "5")
    assert main(["bench", "quantize", *tiny, *sizes, "--quantize", form]) == 0
    results = json.loads((tmp_path / "report").read_text())["results"]
    assert results.keys() >= KEYS and results["tokens"] == 10 and len(results["layers"]) == 2
    assert results["weight_bytes"] < results["dense_bytes"] and 0 < results["kl"] < 0.1
    assert results["worst"] == max(error for layer in results["layers"] for error in list(layer.values())[1:])
    if form == "int8":
        assert results["agreed"] == 10 and results["worst"] < 0.01


def test_the_report_needs_a_format(capsys) -> None:
    """Guards the error contract: one line that names the option and its values."""
    assert main(["bench", "quantize", "--device", "cpu"]) == 2
    assert capsys.readouterr().err == "python -m engine: --quantize: one of int8, fp8, int4\n"
