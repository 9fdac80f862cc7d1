"""``bench kernels --tune``: what is measured, what is kept, and who reads it."""

import pytest
import torch

from engine.errors import InvalidRequest
from engine.workload import kernel_tune
from kernels import product_tiles, tuning
from kernels.product_tiles import COMPOSED, choose

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def empty_cache(tmp_path, monkeypatch):
    """A cache directory of the test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for known in (tuning._load, product_tiles.choose):
        known.cache_clear()
    yield
    for known in (tuning._load, product_tiles.choose):
        known.cache_clear()


def deepest(layer, tile, device):
    """A cost that prefers many stages, and the library for o."""
    return -100 if layer.name == "o" and tile == COMPOSED else -tile.stages


def test_tuned_tiles_go_before_the_rule():
    """Measured once for each bucket of tokens; products then run with what was kept, the library included."""
    assert choose(16, 1024, 2048, False, False, CPU) is not None
    chosen = kernel_tune.tune("qwen3-0.6b", "cpu", measure=deepest)
    assert len(chosen) == 12
    for layer, tile in chosen:
        found = choose(layer.rows, layer.outputs, layer.inputs, layer.norm, layer.gated, CPU)
        assert found == (None if layer.name == "o" else tile)
    again = kernel_tune.tune("qwen3-0.6b", "cpu", measure=lambda *_, **__: pytest.fail("measured again"))
    assert again == chosen
    assert str(tuning.tiles_file()) in kernel_tune.table(chosen)


def test_without_a_gpu_nothing_is_tuned():
    """A CPU has no tiles: one line, before any work."""
    with pytest.raises(InvalidRequest, match="tune: a CUDA device"):
        kernel_tune.tune("tiny", "cpu")
