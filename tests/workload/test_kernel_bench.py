"""``bench kernels`` on the CPU, where the references run on small shapes: what is counted, checked and written."""

import pytest
import torch

from engine.__main__ import KERNELS
from engine.workload.kernel_bench import check, kernel_bench
from engine.workload.kernel_cases import CASES, Case

KEYS = {"kernel", "shape", "dtype", "us", "of_ceiling", "peers", "max_rel_err"}


def test_the_command_line_knows_every_kernel() -> None:
    """Guards a kernel that can be measured but not asked for: the names stand twice, as parsing loads no torch."""
    assert set(KERNELS) == set(CASES)


@pytest.mark.parametrize("kernel", KERNELS)
def test_entries_are_complete(kernel: str) -> None:
    """Guards the JSON that the Kernel Lab reads: one rate and a plausible figure in every entry."""
    entries, ceilings = kernel_bench("cpu", kernel)
    assert entries and ceilings.machine.bandwidth > 0
    for entry in entries:
        assert set(entry) > KEYS and len(set(entry) & {"gb_s", "tflop_s"}) == 1
        assert entry["us"] > 0 and entry["of_ceiling"] > 0 and entry["max_rel_err"] < 0.03
        assert all(us > 0 for us in entry["peers"].values())


def test_bytes_are_counted_once() -> None:
    """Guards an inflated rate: the cache of a decode case holds exactly the bytes that it claims to read."""
    case = next(CASES["decode"]("cpu"))
    rows, context, kv_heads, q_heads, head_dim = 4, 64, 2, 4, 128
    assert case.bytes == 2 * 2 * rows * (context * kv_heads + q_heads) * head_dim


@pytest.mark.parametrize("fault", ("off", "unwritten"))
def test_a_wrong_kernel_is_not_timed(fault: str) -> None:
    """Guards correctness first: an error of 10 %, and one element that nobody writes, both stop the command."""

    def kernel() -> torch.Tensor:
        y = torch.empty(8)
        y[: 8 if fault == "off" else 7] = 1.1 if fault == "off" else 1.0
        return y

    with pytest.raises(RuntimeError, match="kernel broken is wrong at 8"):
        check(Case("broken", "8", [kernel], lambda: torch.ones(8), 8))
