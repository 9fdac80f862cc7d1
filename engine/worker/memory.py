"""Where the memory goes, and how many KV blocks are left room for."""

from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from engine.config import SchedulingConfig
from engine.worker import warmup
from engine.worker.graphs import Ladder
from engine.worker.host_pool import stage_bytes
from engine.worker.kv_cache import automatic_cpu_blocks, blocks_within, free_bytes
from engine.worker.spec import ModelSpec
from engine.worker.steps import Steps

if TYPE_CHECKING:
    from engine.worker.runner import TorchWorker


TRIAL_GRAPHS = 3  # captured to see what one graph takes


def measure(worker: "TorchWorker", scheduling: SchedulingConfig) -> tuple[int, int]:
    """Peak bytes of a full step beyond weights and pool, and bytes that all graphs will take: measured on CUDA by
    trying both on a small pool, estimated on a CPU (which has no graphs)."""
    if worker.device.type != "cuda":
        return estimated_activations(worker.spec, scheduling), 0
    before = torch.cuda.memory_allocated(worker.device)
    blocks = scheduling.token_budget // scheduling.block_size + scheduling.max_num_seqs
    worker.reset(replace(scheduling, pool_blocks=blocks, host_blocks=0))
    torch.cuda.reset_peak_memory_stats(worker.device)
    worker.launch(warmup.dummy_step(worker, scheduling.max_num_seqs, scheduling.token_budget, warmup.GENERAL))
    worker.poll()
    peak = torch.cuda.max_memory_allocated(worker.device) - before - worker.cache.num_bytes
    graphs = _graph_bytes(worker.steps, peak) if worker.backend == "triton" else 0
    worker.drop_buffers()
    return peak, graphs


@torch.inference_mode()
def _graph_bytes(steps: Steps, reserve: int) -> int:
    """Bytes of the shared pool, and of every graph as much as each of the first few took."""
    ladder = Ladder(steps.program, steps.shapes, reserve)
    ladder.climb()
    first = ladder.num_bytes
    for _ in range(TRIAL_GRAPHS):
        ladder.climb()
    return first + (ladder.num_bytes - first) * ladder.total // TRIAL_GRAPHS


def estimated_activations(spec: ModelSpec, scheduling: SchedulingConfig) -> int:
    """Bytes of the largest tensors that live together: the MLP of all tokens, and two copies of the logits."""
    per_token = (3 * spec.intermediate_size + 3 * spec.hidden_size) * spec.dtype.itemsize
    return scheduling.token_budget * per_token + 2 * scheduling.max_num_seqs * spec.vocab_size * 4


def automatic_blocks(worker: "TorchWorker", scheduling: SchedulingConfig) -> int:
    """Blocks of a pool that nobody gave a size."""
    if worker.device.type != "cuda":
        return automatic_cpu_blocks(worker.spec, scheduling)
    block_bytes = worker.spec.kv_bytes_per_token * scheduling.block_size
    besides = worker.activation_bytes + worker.graph_bytes + (stage_bytes(block_bytes) if scheduling.host_blocks else 0)
    return blocks_within(free_bytes(worker.device), besides, worker.config.memory_fraction, block_bytes)


def memory_map(worker: "TorchWorker") -> dict[str, int]:
    """Bytes by purpose. ``context``: neither ours by name nor free (driver, libraries, other processes).

    Where there are host blocks: ``host_stages`` on the device, and ``host_pool``, which is main memory on any device.
    """
    ours = {
        "weights": worker.spec.weight_bytes,
        "kv_pool": worker.cache.num_bytes,
        "activations": worker.activation_bytes,
        "graphs": worker.steps.ladder.num_bytes if worker.steps.ladder else 0,
    }
    host = worker.steps.host
    if host is not None:
        ours["host_stages"] = host.stage_bytes
    beside = {} if host is None else {"host_pool": host.num_bytes}
    if worker.device.type != "cuda":
        return {**ours, "context": 0, "free": free_bytes(worker.device), **beside}
    free, total = torch.cuda.mem_get_info(worker.device)
    return {**ours, "context": max(0, total - free - sum(ours.values())), "free": free, **beside}
