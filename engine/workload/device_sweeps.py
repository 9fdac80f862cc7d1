"""A device in numbers: bandwidth against size, products against size and format, and what "busy" hides."""

import time
from collections.abc import Sequence

import torch

from engine.workload.calibrate import median_seconds
from engine.workload.drive import Progress, silent

GPU_SIZES = tuple(1 << power for power in range(20, 32))  # bytes: 1 MB .. 2 GB
CPU_SIZES = tuple(1 << power for power in range(14, 29, 2))  # 16 KB .. 256 MB
FORMATS = ("float32", "float16", "bfloat16")


def read_sweep(device: str, progress: Progress = silent) -> list[dict]:
    """Bytes/s of reading arrays of growing size again and again: ``bytes``, ``us``, ``gb_s``.

    Small arrays come from a cache, large ones from memory. Rows are summed, which reads everything and writes little.
    """
    sizes, entries = GPU_SIZES if device != "cpu" else CPU_SIZES, []
    for place, size in enumerate(sizes):
        progress("reading", place / len(sizes))
        rows = torch.randn(size // 4, device=device).view(-1, 1024)
        out = torch.empty(len(rows), device=device)
        seconds = median_seconds(lambda rows=rows, out=out: torch.sum(rows, dim=1, out=out), device)
        entries.append({"bytes": size, "us": seconds * 1e6, "gb_s": size / seconds / 1e9})
    return entries


def product_rates(device: str, sides: Sequence[int], progress: Progress = silent) -> dict[str, list[dict]]:
    """FLOP/s of square products by number format: ``side``, ``us``, ``tflop_s``."""
    found: dict[str, list[dict]] = {}
    formats = FORMATS if device != "cpu" else ("float32", "bfloat16")
    for place, name in enumerate(formats):
        for step, side in enumerate(sides):
            progress(name, (place + step / len(sides)) / len(formats))
            left, right = (torch.randn(side, side, device=device).to(getattr(torch, name)) for _ in range(2))
            seconds = median_seconds(lambda left=left, right=right: left @ right, device)
            entry = {"side": side, "us": seconds * 1e6, "tflop_s": 2 * side**3 / seconds / 1e12}
            found.setdefault(name, []).append(entry)
    return found


def tiny_loop(device: str, seconds: float, progress: Progress = silent) -> dict:
    """Adds 1 to a single number, over and over, and asks how busy the device is.

    Returns:
        ``utilisation``: on CUDA what NVML reports at the end (None where it cannot be asked), on a CPU the share of the
        time that the process spent computing; ``calls_s``; ``bytes_s`` that the loop moved; ``flops_s``.
    """
    one, calls = torch.zeros(1, device=device), 0
    begin, busy = time.perf_counter(), time.process_time()
    while (spent := time.perf_counter() - begin) < seconds:
        progress("adding 1", spent / seconds)
        for _ in range(2000):
            one.add_(1)
        calls += 2000
    if device != "cpu":
        utilisation = _nvml_utilisation()
        torch.cuda.synchronize()
    else:
        utilisation = min(1.0, (time.process_time() - busy) / (time.perf_counter() - begin))
    took = time.perf_counter() - begin
    rate = calls / took
    return {"utilisation": utilisation, "calls_s": rate, "bytes_s": 8 * rate, "flops_s": rate}


def _nvml_utilisation() -> float | None:
    """Share of the last sampling period in which a kernel ran; None without NVML."""
    try:
        return torch.cuda.utilization() / 100
    except Exception:  # no NVML, no permission, or a driver of another version
        return None


def features(device: str) -> dict:
    """What the device offers: ``memory_gb``, ``free_gb``, ``bf16``, ``fp8`` (tensor cores from compute capability 8.9),
    ``capability``."""
    if device == "cpu":
        return {"memory_gb": _host_gb("MemTotal"), "free_gb": _host_gb("MemAvailable"), "bf16": False, "fp8": False} | {
            "capability": None
        }
    free, total = torch.cuda.mem_get_info()
    major, minor = torch.cuda.get_device_capability()
    return {
        "memory_gb": total / 1e9,
        "free_gb": free / 1e9,
        "bf16": major >= 8,
        "fp8": (major, minor) >= (8, 9),
        "capability": f"{major}.{minor}",
    }


def _host_gb(field: str) -> float | None:
    """A line of /proc/meminfo; None where there is no such file."""
    try:
        with open("/proc/meminfo") as lines:
            return next(int(line.split()[1]) * 1024 / 1e9 for line in lines if line.startswith(field))
    except (OSError, StopIteration):
        return None
