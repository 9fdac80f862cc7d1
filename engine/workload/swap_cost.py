"""What it takes to bring a token's KV back from the host, and what to compute it again: the two numbers of ``swap``
cheaper. Measured on the loaded model, in about a second on a GPU."""

import statistics
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from engine.config import SchedulingConfig
from engine.step import NO_COPIES
from engine.trace.recorder import ListSink
from engine.trace.timed_steps import timed_steps
from engine.workload.drive import FAIR, MakeEngine, drive
from engine.workload.lengths import fixed

if TYPE_CHECKING:
    from engine.worker.runner import TorchWorker

REPEATS = 5
BLOCKS = 64  # copied at once, as a resumed request of 1,024 tokens does


def is_needed(scheduling: SchedulingConfig) -> bool:
    """Whether a configuration asks for these costs and does not bring them."""
    given = scheduling.swap_us_per_token or scheduling.prefill_us_per_token
    return scheduling.host_blocks > 0 and scheduling.swap == "cheaper" and not given


def measure(make_engine: MakeEngine, worker: "TorchWorker") -> dict[str, float]:
    """``swap_us_per_token`` and ``prefill_us_per_token`` of a loaded model.

    Args:
        make_engine: makes engines on ``worker``, which has host blocks.
    """
    prefill_us = _prefill_us(make_engine)  # afterwards the pool is nobody's
    return {"swap_us_per_token": _swap_us(worker), "prefill_us_per_token": prefill_us}


def _prefill_us(make_engine: MakeEngine) -> float:
    """Device time per token of steps that the budget fills with prompts, on their second run."""
    limits = make_engine(FAIR, ()).config.scheduling
    room = limits.pool_blocks * limits.block_size
    length = max(1, min(limits.token_budget, limits.max_model_len - 1, room - limits.block_size))
    count = max(1, min(limits.max_num_seqs, limits.token_budget // length, room // (length + limits.block_size)))
    sink = ListSink()
    for sinks in ((), (sink,)):
        engine = make_engine(FAIR, sinks)
        items = fixed(count, 0, length, 1).items
        for item in items:
            item.prompt_ids[:] = [token % engine.limits.vocab_size for token in item.prompt_ids]
        drive(engine, items)
    steps = timed_steps(sink.records)
    return sum(step.busy_s for step in steps) / sum(step.tokens for step in steps) * 1e6


def _swap_us(worker: "TorchWorker") -> float:
    """Time per token of a copy from the host into the pool."""
    host, limits = worker.steps.host, worker.scheduling
    count = min(BLOCKS, limits.host_blocks, limits.pool_blocks)
    pairs = np.stack([np.arange(count), np.arange(1, count + 1)], axis=1).astype(np.int32).ravel()
    seconds = _median_seconds(lambda: host.swap(NO_COPIES, pairs), worker.device.type)
    return seconds / (count * limits.block_size) * 1e6


def _median_seconds(work: Callable[[], None], device: str) -> float:
    import torch

    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    times = []
    for _ in range(REPEATS + 1):
        wait()
        start = time.perf_counter()
        work()
        wait()
        times.append(time.perf_counter() - start)
    return statistics.median(times[1:])
