"""All cases on the Triton kernels in Triton's interpreter. Run by ``test_kernels_interpreter``, in its own process."""

import pytest
import torch

from kernels.backend import INTERPRET
from kernels.filters import launch_pivots, pivots_reference
from kernels.sampling import sample
from tests.kernels.advance_cases import *  # noqa: F403
from tests.kernels.attention_cases import *  # noqa: F403
from tests.kernels.attention_cases import attend
from tests.kernels.inputs import Target, in_8_bits, paged_batch
from tests.kernels.kv_format_cases import *  # noqa: F403
from tests.kernels.layer_cases import *  # noqa: F403
from tests.kernels.linear_cases import *  # noqa: F403
from tests.kernels.quant_cases import *  # noqa: F403
from tests.kernels.sampling_cases import *  # noqa: F403

assert INTERPRET, "TRITON_INTERPRET=1 must be set before anything imports triton"
torch.set_num_threads(1)


@pytest.fixture
def target():
    return Target("cpu", "triton")


@pytest.mark.parametrize("dtype", (torch.float32, torch.float16, torch.bfloat16), ids=str)
def test_pivots_and_tokens_equal_the_reference(dtype):
    """Bisection ends on the very logit that a sort finds, near the best token and (last rows: a large top-k, a flat
    row) far from it; and the kernel draws the reference's integers."""
    logits = (torch.randn(7, 9300) * 3).to(dtype)
    logits[6] *= 0.01
    temperature, seeds = torch.tensor([0.8, 0.0, 1.0, 1.5, 0.3, 1.0, 2.0]), torch.tensor([1, 2, 3, -4, 2**50, 6, 7])
    top_k, top_p = torch.tensor([0, 3, 50, -1, 7, 6000, 0]), torch.tensor([0.95, 0.5, 1.0, 0.5, 0.9, 0.9, 0.9])
    filters = temperature, top_k, top_p, torch.tensor([0.0, 0.0, 0.0, 0.05, 0.0, 0.0, 0.0])
    torch.testing.assert_close(launch_pivots(logits, *filters), pivots_reference(logits, *filters))
    tokens = [sample(logits, *filters, seeds, top_k, False, backend=b).tolist() for b in ("triton", "reference")]
    assert tokens[0] == tokens[1]


def test_layouts_that_the_kernels_do_not_read():
    """Caches of two layouts, and an odd block size in 8 bits, are refused instead of read wrongly."""
    batch = paged_batch([(1, 5)], Target("cpu", "triton"), block_size=9)
    with pytest.raises(ValueError, match="block_size: even"):
        attend(in_8_bits(batch, torch.int8), Target("cpu", "triton"))
    batch.v_cache = batch.v_cache.transpose(1, 2).contiguous().transpose(1, 2)
    with pytest.raises(ValueError, match="v_cache: must have the strides"):
        attend(batch, Target("cpu", "triton"))
