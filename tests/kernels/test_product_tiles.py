"""The rules that choose a tile: every model's products at every number of tokens, without a GPU."""

import pytest
import torch

from kernels import slices
from kernels.product_tiles import MAX_ROWS, candidates, choose, tile

CPU = torch.device("cpu")
SHAPES = {  # (outputs, inputs) of qkv, o, gate_up, down
    "qwen3-0.6b": ((4096, 1024), (1024, 2048), (6144, 1024), (1024, 3072)),
    "llama-3.2-1b": ((3072, 2048), (2048, 2048), (16384, 2048), (2048, 8192)),
    "llama-3.1-8b": ((6144, 4096), (4096, 4096), (28672, 4096), (4096, 14336)),
    "qwen2-0.5b": ((1152, 896), (896, 896), (9728, 896), (896, 4864)),
}
SHARED = {"H200": 226 << 10, "desktop card": 98 << 10}


@pytest.mark.parametrize("shared", SHARED.values(), ids=SHARED)
@pytest.mark.parametrize("shapes", SHAPES.values(), ids=SHAPES)
def test_tiles_cover_the_product_and_fit(shapes, shared):
    """A tile that left outputs or inputs over would compute another product; one too large would not start."""
    for outputs, inputs in shapes:
        for rows in range(1, MAX_ROWS + 1):
            for found in (tile(rows, outputs, inputs, shared), *candidates(rows, outputs, inputs, shared)[1:]):
                if found is None:
                    continue
                block_m, block_n, block_k, splits, stages = found
                assert rows <= block_m and outputs % block_n == 0 and inputs % block_k == 0
                assert 1 <= splits <= inputs // block_k and stages >= 2 and block_n <= 128
                assert 2 * stages * (block_m + block_n) * block_k <= shared


@pytest.mark.parametrize("shared", SHARED.values(), ids=SHARED)
def test_slices_fit(shared):
    """The same for the slices of two to eight tokens; their chunks end where K ends."""
    for outputs, inputs in (shape for shapes in SHAPES.values() for shape in shapes):
        if slices.is_faster(8, outputs, inputs):
            chunk, shares, stages = slices.tile(outputs, inputs, shared)
            assert inputs % chunk == 0 and chunk % (16 * shares) == 0
            assert 2 * max(1, stages - 1) * chunk * (slices.BLOCK_N + slices.MAX_ROWS) <= shared


def test_many_rows_and_wide_heads_go_to_the_library():
    """A prefill, and a head whose read alone takes the time, gain nothing."""
    assert choose(65, 4096, 1024, False, False, CPU) is None
    assert choose(8192, 4096, 1024, True, False, CPU) is None
    assert choose(16, 151936, 1024, True, False, CPU) is None
    assert not slices.is_faster(8, 151936, 1024)


def test_the_choice_is_one_for_a_bucket():
    """Padded steps of one bucket run one compiled kernel."""
    assert choose(33, 4096, 1024, True, False, CPU) == choose(64, 4096, 1024, True, False, CPU)
    assert choose(17, 1024, 2048, False, False, CPU) == choose(32, 1024, 2048, False, False, CPU)
