"""One case of ``bench kernels``: a kernel, a shape, sets of random inputs, the fp32 formula and the peers."""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

ROTATED_BYTES = 150_000_000  # of all sets of inputs: three times the L2 cache of an H200
EPS = 1e-6
HEAD_DIM = 128
Call = Callable[[], Tensor]


@dataclass
class Case:
    """One kernel at one shape. Each list holds one call per set of inputs."""

    kernel: str
    shape: str
    calls: list[Call]
    expected: Call  # the answer of a first call of ``calls[0]``, in fp32 where it is not ids
    bytes: int
    flops: int = 0
    peers: dict[str, list[Call]] = field(default_factory=dict)


def random(*shape: int, device: str, dtype: torch.dtype = torch.bfloat16) -> Tensor:
    """Fresh normal numbers."""
    return torch.randn(*shape, device=device).to(dtype)


def sets(size: int, device: str) -> int:
    """How many sets of inputs of ``size`` bytes outgrow the cache (2 on a CPU, where caches are small)."""
    return min(48, max(2, -(-ROTATED_BYTES // size))) if device == "cuda" else 2
