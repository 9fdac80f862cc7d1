"""Guards what is said of KV dtypes: bytes, rounding, drift, lines and kernel times."""

import pytest
import torch

from engine.workload.kv_capacity import head_bytes, kv_capacity
from engine.workload.kv_drift import divergences, kv_drift
from engine.workload.kv_kernel_times import kv_kernel_times
from engine.workload.kv_rounding import BINS, GRAINS, SAMPLE, channel_histogram, kv_rounding, rounded, rounding_errors
from engine.workload.kv_sweep import break_even, byte_lines, fitted, kv_sweep, quantised_dtypes
from kernels.kv_format import dequantise_reference, quantise_reference


def keys(seed: int = 0) -> torch.Tensor:
    """Keys (layers, Hkv, T, D) with a wide channel in each head, as real ones have."""
    torch.manual_seed(seed)
    x = torch.randn(2, 2, 40, 16)
    x[..., 3] *= 20
    return x


def test_formula_and_pool_agree() -> None:
    """A formula that forgets scales, or a pool that keeps fewer than it should, would make the capacity a lie."""
    found = kv_capacity(("fp32", "bf16", "int8", "fp8"))
    for name, held in found["token_bytes"].items():
        assert held == found["heads"] * sum(head_bytes(name, found["head_dim"]))
    wide = found["shapes"]["llama-3.1-8b"]
    assert wide["heads"] * sum(head_bytes("int8", wide["head_dim"])) == 66_560
    assert head_bytes("int4", 64) == (32, 2)


@pytest.mark.parametrize(("kind", "dtype"), [("int8", torch.int8), ("fp8", torch.float8_e4m3fn)])
def test_token_and_head_is_what_the_pool_stores(kind: str, dtype: torch.dtype) -> None:
    """The granularity of the engine must be the engine's own rounding, bit by bit."""
    layer = keys()[0]
    assert torch.equal(rounded(layer, kind, "token_head"), dequantise_reference(*quantise_reference(layer, dtype)))


def test_a_wide_channel_spoils_what_shares_its_scale() -> None:
    """The order of the granularities: a scale for each channel keeps a wide one from the others."""
    errors = {grain: each[0] for grain, each in rounding_errors(keys(), ["int8"])["int8"].items()}
    assert set(errors) == set(GRAINS)
    assert errors["channel"] < errors["token_head"] < errors["head"] <= 1.01 * errors["tensor"]
    coarse = rounding_errors(keys(), ["int8", "int4"])
    assert all(coarse["int4"][grain][0] > 8 * errors[grain] for grain in GRAINS)


def test_rounding_of_nothing_is_nothing() -> None:
    """A head of zeros divides by no zero."""
    for grain in GRAINS:
        for kind in ("int8", "fp8", "int4"):
            assert not rounded(torch.zeros(2, 3, 4), kind, grain).any()


def test_histograms_count_every_token() -> None:
    """A share that does not sum to 1 has lost tokens at the edges."""
    found = channel_histogram(keys()[0])
    assert len(found["edges"]) == BINS + 1 and len(found["share"]) == 2 * 16
    assert all(sum(share) == pytest.approx(1) for share in found["share"])
    assert max(found["largest"]) == found["largest"][3] or max(found["largest"]) == found["largest"][16 + 3]


def test_keys_come_from_the_model() -> None:
    """The bundled model's keys, every layer; the same text gives the same numbers."""
    found = kv_rounding(48, 7)
    assert found["layers"] == 8 and len(found["sample"]) == SAMPLE and len(found["sample"][0]) == 64
    assert all(0 < error < 5 for error in found["keys"]["int8"]["token_head"])
    assert kv_rounding(48, 7)["keys"] == found["keys"]


def test_divergence_is_zero_for_equals_only() -> None:
    """KL of a distribution with itself, and with another one, by hand."""
    plain = torch.tensor([[0.0, 0.0], [0.0, 1.0]]).log_softmax(1)
    other = torch.tensor([[0.0, 0.0], [1.0, 0.0]])
    first, second = divergences(other, plain)
    p = torch.tensor([0.0, 1.0]).softmax(0)
    assert first == 0 and second == pytest.approx(float((p * (p.log() - p.flip(0).log())).sum()), rel=1e-5)


def test_finer_formats_drift_less() -> None:
    """bf16 beside fp32, then int8, then fp8: an order that a mix-up of pools would break."""
    found = kv_drift(("bf16", "int8", "fp8"), 2, 24)
    kl = [found["formats"][name]["kl"] for name in ("bf16", "int8", "fp8")]
    assert found["plain"] == "fp32" and 0 < kl[0] < kl[1] < kl[2] < 0.01
    for each in found["formats"].values():
        assert len(each["kl_at"]) == 24 and sum(each["kl_at"]) / 24 == pytest.approx(each["kl"], rel=1e-2, abs=1e-8)


def test_a_sweep_gives_one_line_each() -> None:
    """Contexts of all rows together, the model's own format first, bytes of each format as its pool has them."""
    found = kv_sweep(None, ["int8"], 2, (32, 64))
    assert list(found["lines"]) == ["fp32", "int8"] and found["plain"] == "fp32" and found["backend"] == "reference"
    assert [line["kv_bytes"] for line in found["lines"].values()] == [8192, 2112]
    assert all(line["tokens"] == [64.0, 128.0] for line in found["lines"].values())
    assert found["weight_bytes"] > 27e6
    assert quantised_dtypes("cpu") == ["int8", "fp8"]


def test_lines_are_fitted_and_cross_where_they_should() -> None:
    """Coefficients come back; a line that starts higher and is flatter crosses, others do not."""
    assert fitted([10, 20, 40], [2.0, 3.0, 5.0]) == pytest.approx((1.0, 0.1))
    assert fitted([10, 20, 40], [3.0, 3.0, 2.9])[1] == 0.0
    assert fitted([10], [3.0]) == (3.0, 0.0)
    assert break_even((1.0, 0.1), (2.0, 0.05)) == pytest.approx(20)
    assert break_even((1.0, 0.1), (1.0, 0.05)) == 0.0
    assert break_even((1.0, 0.1), (1.0, 0.1), 1.05) is None
    assert break_even((1.0, 0.1), (2.0, 0.2)) is None
    assert break_even((1.0, 0.1), (1.0, 0.05), 1.05) == pytest.approx(0.05 / 0.0475)
    plain, other = byte_lines(1e9, 1e5, 0.5)
    weigh = 1e9 / 1e5
    assert plain[0] == pytest.approx(plain[1] * weigh) and other == (plain[0], 0.5 * plain[1])


def test_kernel_times_come_with_their_peer() -> None:
    """Each format at each context, checked, beside the bf16 cache; a context that no block ends at is refused."""
    found = kv_kernel_times("cpu", 2, (4, 2), (16, 32))
    assert [(entry["kv_dtype"], entry["context"]) for entry in found] == [
        (name, context) for name in ("int8", "fp8") for context in (16, 32)
    ]
    assert all(entry["us"] > 0 and entry["bf16_us"] > 0 for entry in found)
    assert found[1]["bytes"] - found[0]["bytes"] == 2 * 2 * 16 * 2 * (128 + 2)
    with pytest.raises(ValueError, match="multiples of 16"):
        kv_kernel_times("cpu", 2, (4, 2), (20,))
