"""Where the memory goes, and how many KV blocks are left room for."""

from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from engine.config import SchedulingConfig
from engine.worker import warmup
from engine.worker.kv_cache import automatic_cpu_blocks, blocks_within, free_bytes
from engine.worker.spec import ModelSpec

if TYPE_CHECKING:
    from engine.worker.runner import TorchWorker


def activation_bytes(worker: "TorchWorker", scheduling: SchedulingConfig) -> int:
    """Peak bytes of a full step beyond weights and pool: measured on CUDA, estimated on a CPU."""
    if worker.device.type != "cuda":
        return estimated_activations(worker.spec, scheduling)
    before = torch.cuda.memory_allocated(worker.device)
    blocks = scheduling.token_budget // scheduling.block_size + scheduling.max_num_seqs
    worker.reset(replace(scheduling, pool_blocks=blocks))
    torch.cuda.reset_peak_memory_stats(worker.device)
    worker.launch(warmup.dummy_step(worker, scheduling.max_num_seqs, scheduling.token_budget, warmup.GENERAL))
    worker.poll()
    peak = torch.cuda.max_memory_allocated(worker.device) - before - worker.cache.num_bytes
    worker.drop_buffers()
    return peak


def estimated_activations(spec: ModelSpec, scheduling: SchedulingConfig) -> int:
    """Bytes of the largest tensors that live together: the MLP of all tokens, and two copies of the logits."""
    per_token = (3 * spec.intermediate_size + 3 * spec.hidden_size) * spec.dtype.itemsize
    return scheduling.token_budget * per_token + 2 * scheduling.max_num_seqs * spec.vocab_size * 4


def automatic_blocks(worker: "TorchWorker", scheduling: SchedulingConfig) -> int:
    """Blocks of a pool that nobody gave a size."""
    if worker.device.type != "cuda":
        return automatic_cpu_blocks(worker.spec, scheduling.block_size, scheduling.max_num_seqs)
    block_bytes = worker.spec.kv_bytes_per_token * scheduling.block_size
    free = free_bytes(worker.device)
    return blocks_within(free, worker.activation_bytes, worker.config.memory_fraction, block_bytes)


def memory_map(worker: "TorchWorker") -> dict[str, int]:
    """Bytes by purpose. ``context``: neither ours by name nor free (driver, libraries, other processes)."""
    ours = {
        "weights": worker.spec.weight_bytes,
        "kv_pool": worker.cache.num_bytes,
        "activations": worker.activation_bytes,
        "graphs": worker.graphs.num_bytes if worker.graphs else 0,
    }
    if worker.device.type != "cuda":
        return {**ours, "context": 0, "free": free_bytes(worker.device)}
    free, total = torch.cuda.mem_get_info(worker.device)
    return {**ours, "context": max(0, total - free - sum(ours.values())), "free": free}
