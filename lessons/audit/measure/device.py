"""What only a GPU can answer: copies and streams, graphs, what NVML calls utilisation, and number formats."""

import statistics
import time
from collections.abc import Callable

import torch

from engine.trace.recorder import ListSink
from engine.trace.timed_steps import timed_steps
from engine.workload.bench import shorten
from engine.workload.calibrate import calibrate
from engine.workload.drive import FAIR, Progress, drive
from engine.workload.items import fit
from engine.workload.ladder import ladder
from engine.workload.lengths import fixed
from lessons.audit.measure.setup import bundled

COPY_BYTES, REPEATS = 256 * 2**20, 7
LOOP_S = 2.0  # NVML looks back up to a second
ROWS = (1, 8, 64)


def copies(device: str, progress: Progress) -> dict:
    """Host to device from pageable and pinned memory; then copy and product on one stream and on two."""
    progress("copies", 0.0)
    pageable = torch.randn(COPY_BYTES // 4)
    pinned, target = pageable.pin_memory(), torch.empty(COPY_BYTES // 4, device=device)
    rates = {
        name: COPY_BYTES / _seconds(lambda source=source: target.copy_(source, non_blocking=True))
        for name, source in (("pageable", pageable), ("pinned", pinned))
    }
    progress("streams", 0.5)
    product = _as_long_as(_seconds(lambda: target.copy_(pinned, non_blocking=True)), device)
    aside = torch.cuda.Stream()

    def serial() -> None:
        target.copy_(pinned, non_blocking=True)
        product()

    def overlapped() -> None:
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            target.copy_(pinned, non_blocking=True)
        product()
        torch.cuda.current_stream().wait_stream(aside)

    return rates | {"one_stream_s": _seconds(serial), "two_streams_s": _seconds(overlapped), "bytes": COPY_BYTES}


def _as_long_as(seconds: float, device: str) -> Callable[[], None]:
    """Products that take about as long as the copy."""
    left = torch.randn(4096, 4096, device=device, dtype=torch.float16)
    one = _seconds(lambda: left @ left)
    count = max(1, round(seconds / one))

    def work() -> None:
        for _ in range(count):
            left @ left

    return work


def graphs(device: str, progress: Progress) -> dict:
    """Decode steps with graphs and without, and what the ladder of graphs cost and was used for."""
    limits = {"max_num_seqs": max(ROWS), "token_budget": 4096, "prefix_cache": False}
    with bundled(device, progress, pool_blocks=max(ROWS) * 8, **limits) as model:
        entries = []
        for rows in ROWS:
            workload = fit(fixed(rows, 0, 32, 64), 512, model.limits.vocab_size)
            drive(model.new_engine(FAIR), [shorten(item) for item in workload.items], "warm-up", progress)
            replayed, steps = _step_s(model, workload.items, f"{rows} rows", progress)
            with model.worker.eagerly():
                launched, _ = _step_s(model, workload.items, f"{rows} rows, eager", progress)
            entries.append({"rows": rows, "graph_s": replayed, "eager_s": launched})
        rungs = ladder(model.worker.graphs, steps)
    captured = [rung for rung in rungs if rung["seconds"] is not None]
    return {
        "entries": entries,
        "graphs": len(captured),
        "capture_s": sum(rung["seconds"] for rung in captured),
        "capture_mb": sum(rung["mb"] for rung in captured),
        "hits": sum(rung["hits"] for rung in rungs if rung["tokens"]),
        "eager_steps": sum(rung["hits"] for rung in rungs if not rung["tokens"]),
    }


def _step_s(model: object, items: list, what: str, progress: Progress) -> tuple[float, list]:
    sink = ListSink()
    drive(model.new_engine(FAIR, (sink,)), items, what, progress)
    steps = timed_steps(sink.records)
    pure = [step.busy_s + step.idle_s for step in steps if step.facts.decode_rows and not step.facts.chunks]
    return statistics.median(pure), steps


def utilisation(device: str, progress: Progress) -> dict:
    """NVML's utilisation while a kernel on a single number is repeated, beside the bandwidth that it uses."""
    progress("measuring the machine", 0.0)
    bandwidth = calibrate(device, "bfloat16").machine.bandwidth
    one, seen, launches = torch.zeros(1, device=device), [], 0
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(1000):
            one.add_(1)
    progress("one tiny kernel in a loop", 0.5)
    began = time.perf_counter()
    while (elapsed := time.perf_counter() - began) < LOOP_S:
        graph.replay()
        torch.cuda.synchronize()
        launches += 1000
        if elapsed > LOOP_S / 2 and launches % 10_000 == 0:
            seen.append(torch.cuda.utilization())
    moved = 2 * one.element_size() * launches / elapsed
    return {
        "utilisation": statistics.median(seen) / 100,
        "of_bandwidth": moved / bandwidth,
        "launches_s": launches / elapsed,
    }


def formats(device: str, progress: Progress) -> dict:
    """Number formats of this card by its compute capability."""
    major, minor = torch.cuda.get_device_capability(device)
    lowest = {"fp16": (5, 3), "bf16": (8, 0), "fp8": (8, 9)}
    return {"capability": [major, minor], "formats": {name: (major, minor) >= need for name, need in lowest.items()}}


def _seconds(work: Callable[[], object]) -> float:
    """Median seconds of ``work`` after two warm-up rounds."""
    times = []
    for repeat in range(REPEATS + 2):
        torch.cuda.synchronize()
        began = time.perf_counter()
        work()
        torch.cuda.synchronize()
        if repeat >= 2:
            times.append(time.perf_counter() - began)
    return statistics.median(times)
