"""The plain PyTorch references against formulas of their own, on the CPU: they are the oracle of everything else."""

import subprocess
import sys

import pytest
import torch

from kernels.attention import check_supported, paged_attention
from kernels.backend import use_triton
from kernels.philox import group_bits, gumbel, philox
from tests.kernels.advance_cases import *  # noqa: F403
from tests.kernels.attention_cases import *  # noqa: F403
from tests.kernels.inputs import Target, close, paged_batch, poisoned
from tests.kernels.kv_format_cases import *  # noqa: F403
from tests.kernels.layer_cases import *  # noqa: F403
from tests.kernels.linear_cases import *  # noqa: F403
from tests.kernels.quant_cases import *  # noqa: F403
from tests.kernels.sampling_cases import *  # noqa: F403


@pytest.fixture
def target():
    return Target("cpu", "reference")


@pytest.mark.parametrize("block_size", (1, 3))
def test_C_14_block_sizes_below_eight_run_the_reference(target, block_size):
    """Padding counts whole blocks, not tokens, at any block size (C-14)."""
    batch = paged_batch([(1, 1), (1, block_size), (3, block_size + 1 + 2)], target, block_size=block_size)
    close(paged_attention(*batch.arguments(), backend="reference"), batch.expected())


@pytest.mark.parametrize(
    ("shape", "field"),
    (((16, 4, 2, 16), "head_dim"), ((112, 4, 2, 16), "head_dim"), ((160, 4, 2, 16), "head_dim"),
     ((64, 5, 2, 16), "query heads"), ((64, 17, 1, 16), "query heads"), ((64, 4, 2, 4), "block_size")),
)  # fmt: skip
def test_C_04_C_14_unsupported_shapes_are_named(shape, field):
    """A shape without a kernel is refused at load with the list, not computed wrongly (C-04, C-14)."""
    with pytest.raises(ValueError, match=field):
        check_supported(*shape)


def test_backend_names():
    """An unknown backend, and Triton on CPU tensors outside the interpreter, each say what is possible."""
    with pytest.raises(ValueError, match="triton, reference"):
        use_triton("cuda", torch.zeros(1))
    with pytest.raises(ValueError, match="TRITON_INTERPRET"):
        use_triton("triton", torch.zeros(1))
    assert not use_triton(None, torch.zeros(1))


def test_without_triton_only_the_reference_exists():
    """Every module imports without Triton, the default runs, and asking for Triton says what is missing."""
    code = (
        "import sys; sys.modules['triton'] = None\n"
        "import torch\n"
        "from kernels import attention, filters, penalties, philox, rmsnorm, rope_kv, sampling\n"
        "from kernels import quant_linear, silu_mul, skinny, staging\n"
        "assert silu_mul.silu_mul(torch.ones(1, 4)).shape == (1, 2)\n"
        "try: silu_mul.silu_mul(torch.ones(1, 4), backend='triton')\n"
        "except RuntimeError as error: assert 'triton package' in str(error)\n"
        "else: raise AssertionError\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_importing_the_package_loads_nothing():
    """Transformers may import ``kernels`` at its own import time: no version, no torch, no Triton."""
    code = "import sys, kernels; assert not hasattr(kernels, '__version__') and 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_poison_reaches_fresh_memory():
    """The cases rely on it: an output element that no kernel writes is NaN."""
    with poisoned():
        assert torch.empty(8).isnan().all()
        assert torch.zeros(1).new_empty(8).isnan().all()


def words_of(key, counter):
    return [int(word) for word in philox(torch.tensor([key]), tuple(torch.tensor([c]) for c in counter))]


def test_philox_known_answers():
    """The three vectors that the authors of Philox publish for 10 rounds."""
    ones = 0xFFFFFFFF
    assert words_of(0, (0, 0, 0, 0)) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    assert words_of(-1, (ones,) * 4) == [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]
    key = 0x299F31D0_A4093822 - (0 if 0x299F31D0 < 2**31 else 2**64)
    counter = (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344)
    assert words_of(key, counter) == [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1]


def test_bits_do_not_depend_on_the_vocabulary():
    """A wider vocabulary leaves the noise of the first groups alone."""
    seeds, positions = torch.tensor([3, 4]), torch.tensor([0, 9])
    wide = group_bits(seeds, positions, 9000)
    assert torch.equal(group_bits(seeds, positions, 1500), wide[:, :1500])
    assert len(wide.unique()) > 17990  # about 18,000 words, hardly a repetition


def test_gumbel_is_finite_and_keeps_its_tail():
    """Extreme words give finite noise (0 * inf would be NaN), and the right tail goes beyond 2^-24."""
    noise = gumbel(torch.tensor([0, 1, 2**31, 2**32 - 1]))
    assert noise.isfinite().all()
    exact = -torch.log(-torch.log1p(-(torch.tensor([0.5, 1.5, 2**31 + 0.5], dtype=torch.float64) * 2.0**-32)))
    close(noise[:3], exact)
