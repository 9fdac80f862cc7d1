"""The limits agree with the tables of performance.md, section 4 (4.3 TB/s, 790 TFLOP/s)."""

import pytest

from engine.workload import lengths
from engine.workload.limits import Machine, ModelShape, decode_floor, offline_floor, prefill_floor
from engine.workload.mixed import mixed_floor

H200 = Machine(4.3e12, 790e12)
QWEN_0_6B = ModelShape(1024, 28, 16, 8, 128, 3072, 151_936, tied=True, qk_norm=True)
LLAMA_1B = ModelShape(2048, 16, 32, 8, 64, 8192, 128_256, tied=True)
LLAMA_8B = ModelShape(4096, 32, 32, 8, 128, 14_336, 128_256, tied=False)
QWEN_8B = ModelShape(4096, 36, 32, 8, 128, 12_288, 151_936, tied=False, qk_norm=True)


@pytest.mark.parametrize(
    ("shape", "streamed_gb", "kv_bytes"),
    [(QWEN_0_6B, 1.192, 114_688), (LLAMA_1B, 2.472, 32_768), (LLAMA_8B, 15.010, 131_072), (QWEN_8B, 15.137, 147_456)],
)
def test_bytes(shape, streamed_gb, kv_bytes):
    """Guards what counts as read: the head always, the untied embedding never."""
    assert shape.streamed_bytes / 1e9 == pytest.approx(streamed_gb, abs=6e-4)
    assert shape.kv_bytes == kv_bytes


@pytest.mark.parametrize(
    ("shape", "floors_ms"),
    [
        (QWEN_0_6B, {1: 0.305, 8: 0.497, 64: 2.036, 256: 7.421}),
        (LLAMA_1B, {1: 0.583, 8: 0.638, 64: 1.082, 256: 2.831}),
        (LLAMA_8B, {1: 3.522, 8: 3.742, 64: 5.498, 256: 12.893}),
        (QWEN_8B, {1: 3.555, 8: 3.803, 64: 5.779, 256: 13.939}),
    ],
)
def test_decode_floor(shape, floors_ms):
    """Guards the component floor at context 1,024, below and above the ridge."""
    for rows, floor_ms in floors_ms.items():
        assert decode_floor(shape, rows, 1024, H200).total * 1e3 == pytest.approx(floor_ms, abs=6e-4)


def test_eight_bit_kv_halves_attention_only():
    """Guards the KV format: its bytes come from the worker, not from the weights' format."""
    small = ModelShape(1024, 28, 16, 8, 128, 3072, 151_936, tied=True, qk_norm=True, kv_bytes_per_token=58_240)
    assert decode_floor(small, 256, 1024, H200).total * 1e3 == pytest.approx(3.976, abs=6e-4)
    assert decode_floor(small, 256, 1024, H200).products == decode_floor(QWEN_0_6B, 256, 1024, H200).products


@pytest.mark.parametrize(("tokens", "floor_ms"), [(512, 0.61), (1024, 1.29), (4096, 7.0)])
def test_prefill_floor(tokens, floor_ms):
    """Guards causal attention: half of the square, not all of it."""
    assert prefill_floor(QWEN_0_6B, tokens, H200) * 1e3 == pytest.approx(floor_ms, rel=0.01)


@pytest.mark.parametrize(
    ("shape", "limit"), [(QWEN_0_6B, 35_984), (LLAMA_1B, 69_411), (LLAMA_8B, 13_265), (QWEN_8B, 12_653)]
)
def test_limit_of_w1(shape, limit):
    """Guards the figure every throughput is divided by."""
    pairs = [(len(item.prompt_ids), item.output_length) for item in lengths.w1().items]
    assert offline_floor(shape, pairs, H200)["output_throughput"] == pytest.approx(limit, abs=1)


def test_fewer_rows_can_only_be_slower():
    """Guards the refill: with half the rows the same work needs more steps and more time."""
    pairs = [(100, output) for output in (5, 50, 10, 40, 1)]
    wide, narrow = (offline_floor(QWEN_0_6B, pairs, H200, rows) for rows in (5, 2))
    assert wide["steps"] == 49 and narrow["steps"] >= 52
    assert narrow["decode_s"] > wide["decode_s"] and narrow["prefill_s"] == wide["prefill_s"]


def test_a_mixed_step_reads_its_weights_once():
    """Guards the floor of the union: dearer than either part, cheaper than both one after the other."""
    decodes, chunk = decode_floor(LLAMA_8B, 32, 1024, H200).total, prefill_floor(LLAMA_8B, 64, H200)
    union = mixed_floor(LLAMA_8B, 32, 1024, 64, 0, H200).total
    assert max(decodes, chunk) < union < decodes + chunk
