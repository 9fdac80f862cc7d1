"""Measures the machine that a benchmark runs on: copy and read bandwidth, the matmul peak, and what a launch costs.

Ratios to a limit are only honest against figures of the same run, so this takes a second or two on a GPU.
"""

import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass

from engine.workload.drive import Progress, silent
from engine.workload.limits import Machine

REPEATS = 7
LAUNCHES = 1000  # in a row, each waiting for the one before
DTYPES = ("float32", "bfloat16", "float16")  # of products; a CPU is asked about the first


@dataclass(frozen=True, slots=True)
class Calibration:
    """Bytes/s of a device-to-device copy (read + written) and of a pure read; FLOP/s of a square product; seconds of
    a kernel that does next to nothing, launched from Python and inside a CUDA graph (0: not measured)."""

    copy_bandwidth: float
    read_bandwidth: float
    matmul_flops: float
    launch_eager_s: float = 0.0
    launch_graph_s: float = 0.0

    @property
    def machine(self) -> Machine:
        """What floors divide by: the larger bandwidth (a read can beat a copy) and the matmul peak."""
        return Machine(max(self.copy_bandwidth, self.read_bandwidth), self.matmul_flops)

    def to_dict(self) -> dict[str, float]:
        """Plain values for a report."""
        return asdict(self)


def calibrate(device: str, dtype: str) -> Calibration:
    """Measure ``device`` ("cpu", "cuda", "cuda:N") for products in ``dtype`` ("bfloat16", "float16", "float32").

    Needs about 2.5 GB of free memory on a GPU, 0.2 GB on a CPU. Medians of ``REPEATS``, random data, never zeros.
    """
    copy, read = _bandwidths(device)
    return Calibration(copy, read, _matmul_rate(device, dtype), *_launch_seconds(device))


def machine_limits(device: str, progress: Progress = silent) -> dict:
    """What ``calibrate`` measures, with the matmul peak of every format: ``matmul_flops`` is dtype -> FLOP/s."""
    progress("bandwidth", 0.0)
    copy, read = _bandwidths(device)
    peaks = {}
    for dtype in DTYPES if _is_cuda(device) else DTYPES[:1]:
        progress(f"products in {dtype}", 0.3)
        peaks[dtype] = _matmul_rate(device, dtype)
    progress("launches", 0.8)
    eager, graph = _launch_seconds(device)
    found = Calibration(copy, read, max(peaks.values()), eager, graph)
    return found.to_dict() | {"matmul_flops": peaks}


def _bandwidths(device: str) -> tuple[float, float]:
    """Bytes/s of a copy and of a read."""
    import torch

    source = torch.randn(1 << (28 if _is_cuda(device) else 24), device=device)
    target = torch.empty_like(source)
    size = source.numel() * source.element_size()
    copy_s = median_seconds(lambda: target.copy_(source), device)
    # Partial sums over short rows read at full speed; one sum over everything would wait for its last few programs.
    rows = source.view(-1, 4096)
    return 2 * size / copy_s, size / median_seconds(lambda: rows.sum(dim=1), device)


def _matmul_rate(device: str, dtype: str) -> float:
    """FLOP/s of a square product of random numbers."""
    import torch

    side = 8192 if _is_cuda(device) else 1024
    left, right = (torch.randn(side, side, device=device).to(getattr(torch, dtype)) for _ in range(2))
    return 2 * side**3 / median_seconds(lambda: left @ right, device)


def _launch_seconds(device: str) -> tuple[float, float]:
    """Seconds of one launch of a kernel on a single number: eager, and in a CUDA graph (0 without CUDA)."""
    import torch

    one = torch.zeros(1, device=device)

    def launch() -> None:
        for _ in range(LAUNCHES):
            one.add_(1)

    eager = median_seconds(launch, device) / LAUNCHES
    if not _is_cuda(device):
        return eager, 0.0
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        launch()
    return eager, median_seconds(graph.replay, device) / LAUNCHES


def _is_cuda(device: str) -> bool:
    return device.startswith("cuda")


def median_seconds(work: Callable[[], object], device: str) -> float:
    """Median seconds of ``work``, the device synchronised around a few calls, after two warm-up rounds."""
    calls, times = (10 if _is_cuda(device) else 1), []
    for repeat in range(REPEATS + 2):
        _synchronize(device)
        start = time.perf_counter()
        for _ in range(calls):
            work()
        _synchronize(device)
        if repeat >= 2:
            times.append((time.perf_counter() - start) / calls)
    return statistics.median(times)


def _synchronize(device: str) -> None:
    import torch

    if _is_cuda(device):
        torch.cuda.synchronize(device)
