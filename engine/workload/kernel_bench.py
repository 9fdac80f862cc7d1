"""``bench kernels``: each fused kernel is checked, then timed, beside the ceiling of this machine and its peers.

A kernel that is wrong is not timed. On CUDA at least ``CALLS`` calls over rotating inputs are captured in one graph, as
the engine runs them, and the median of several replays is divided by the number of calls. Elsewhere the plain PyTorch
references run, on small shapes: that proves the command and measures nothing of interest.
"""

import logging
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

from engine.workload.calibrate import Calibration, calibrate
from engine.workload.drive import Progress, silent
from engine.workload.kernel_cases import CASES, Case

CALLS, REPLAYS, WARM_UPS = 48, 9, 2
TOLERANCE = 0.03  # of the largest expected value: a few roundings of bf16
SAME_IDS = 0.97  # of sampled ids: scores that tie within rounding may fall either way
FORMULAS = {
    "us": "median of replays / calls in the graph",
    "gb_s": "bytes that the operation must move / us",
    "tflop_s": "floating-point operations / us, where products decide",
    "of_ceiling": "gb_s / the larger of the copy and read bandwidth of this run, or tflop_s / its matmul peak",
    "peers": "us of the same operation by others, same inputs, same run",
    "max_rel_err": "largest deviation from the fp32 formula / largest expected value; of ids: the share that differs",
}
log = logging.getLogger(__name__)


def kernel_bench(device: str, name: str | None = None, progress: Progress = silent) -> tuple[list[dict], Calibration]:
    """Run the cases of kernel ``name`` (None: of all).

    Returns:
        One entry per case, and the ceilings that ``of_ceiling`` divides by.

    Raises:
        RuntimeError: naming a kernel whose answer is wrong.
    """
    progress("measuring the machine", 0.0)
    ceilings = calibrate(device, "bfloat16" if device == "cuda" else "float32")
    chosen = [name] if name else list(CASES)
    entries = []
    with torch.no_grad():
        for index, kernel in enumerate(chosen):
            for case in CASES[kernel](device):
                progress(f"{case.kernel}, {case.shape}", index / len(chosen))
                entries.append(run_case(case, device, ceilings))
    return entries, ceilings


def run_case(case: Case, device: str, ceilings: Calibration) -> dict:
    """Check and time one case."""
    error = check(case)
    us = time_calls(case.calls, device)
    machine = ceilings.machine
    if case.flops:
        rate = {"tflop_s": case.flops / us / 1e6, "of_ceiling": case.flops / us * 1e6 / machine.flops}
    else:
        rate = {"gb_s": case.bytes / us / 1e3, "of_ceiling": case.bytes / us * 1e6 / machine.bandwidth}
    peers = {peer: time_peer(peer, calls, device) for peer, calls in case.peers.items()}
    return {
        "kernel": case.kernel,
        "shape": case.shape,
        "dtype": "bfloat16",
        "us": us,
        **rate,
        "peers": {peer: value for peer, value in peers.items() if value is not None},
        "max_rel_err": error,
    }


def check(case: Case) -> float:
    """The error of one call into poisoned memory.

    Raises:
        RuntimeError: when it is beyond the tolerance.
    """
    expected = case.expected()
    with _poisoned():
        actual = case.calls[0]()
    if not actual.dtype.is_floating_point:
        error = (actual != expected).float().mean().item()
        right = error <= 1 - SAME_IDS
    else:
        error = ((actual.float() - expected).abs().max() / expected.abs().max()).item()
        right = error <= TOLERANCE  # False for NaN
    if not right:
        raise RuntimeError(f"kernel {case.kernel} is wrong at {case.shape}: error {error:.3g}")
    return error


@contextmanager
def _poisoned() -> Iterator[None]:
    """Memory that ``torch.empty`` hands out holds NaN, so that an element nobody writes shows."""
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


def time_peer(peer: str, calls: Sequence[Callable[[], Tensor]], device: str) -> float | None:
    """Microseconds of a call of a peer, None where it does not run here (the reason is logged)."""
    try:
        return time_calls(calls, device)
    except Exception as error:
        log.warning("%s: %s: %s", peer, type(error).__name__, error)
        return None


def time_calls(calls: Sequence[Callable[[], Tensor]], device: str) -> float:
    """Microseconds of a call, over all of ``calls`` in turn."""
    if device != "cuda":
        return _host_us(calls)
    count = max(CALLS, len(calls))
    for call in calls[:3]:
        call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for index in range(count):
            calls[index % len(calls)]()
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    times = []
    for _ in range(WARM_UPS + REPLAYS):
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) * 1e3 / count)
    return statistics.median(times[WARM_UPS:])


def _host_us(calls: Sequence[Callable[[], Tensor]]) -> float:
    times = []
    for _ in range(WARM_UPS + REPLAYS):
        for call in calls:
            start = time.perf_counter()
            call()
            times.append((time.perf_counter() - start) * 1e6)
    return statistics.median(times[WARM_UPS * len(calls) :])
