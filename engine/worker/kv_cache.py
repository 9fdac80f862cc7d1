"""The KV pool: keys and values of every layer, cut into blocks.

    block        0            1            2     ...  pool_blocks
    content   reserved,   slots B..2B   slots 2B..
              never read

A slot is ``block_id * block_size + offset``; the same block id means the same place in every layer. An 8-bit pool
(int8, fp8) keeps one fp16 scale per token and head beside it, at the same place of a pool of its own.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from engine.config import SchedulingConfig
from engine.errors import OutOfMemory
from engine.worker.spec import ModelSpec

GIB = 1024**3
CPU_POOL_BYTES = GIB  # what an automatic pool takes at most where memory is shared with everything else


class LayerKV(NamedTuple):
    """Keys and values of one layer, ``[pool_blocks + 1, Hkv, block_size, D]``.

    Their scales are fp16 ``[pool_blocks + 1, Hkv, block_size]``, or None where the pool is not quantised.
    """

    k: Tensor
    v: Tensor
    k_scale: Tensor | None
    v_scale: Tensor | None


class KVCache:
    """The tensors of every layer."""

    def __init__(self, spec: ModelSpec, pool_blocks: int, block_size: int, device: torch.device) -> None:
        self.pool_blocks, self.block_size = pool_blocks, block_size
        shape = (2, spec.num_layers, pool_blocks + 1, spec.num_kv_heads, block_size, spec.head_dim)
        self.data = torch.zeros(shape, dtype=spec.kv_dtype, device=device)
        self.scales = torch.zeros(shape[:-1], dtype=torch.float16, device=device) if spec.kv_has_scales else None
        k_scales, v_scales = [[None] * spec.num_layers] * 2 if self.scales is None else self.scales
        self.layers = [LayerKV(*layer) for layer in zip(*self.data, k_scales, v_scales)]

    @property
    def num_bytes(self) -> int:
        """Bytes on the device."""
        return self.data.nbytes + (0 if self.scales is None else self.scales.nbytes)


def allocate(spec: ModelSpec, pool_blocks: int, block_size: int, device: torch.device) -> KVCache:
    """The pool, or ``OutOfMemory`` saying how many blocks too many were asked for."""
    try:
        return KVCache(spec, pool_blocks, block_size, device)
    except (torch.OutOfMemoryError, RuntimeError) as error:
        if device.type == "cuda" and not isinstance(error, torch.OutOfMemoryError):
            raise
        block_bytes = spec.kv_bytes_per_token * block_size
        short = block_bytes * (pool_blocks + 1) - free_bytes(device)
        blocks = max(1, math.ceil(short / block_bytes))
        raise OutOfMemory("pool_blocks", f"at least {blocks:,} blocks ({blocks * block_bytes / GIB:.2f} GiB)") from None


def blocks_within(free: int, activations: int, fraction: float, block_bytes: int) -> int:
    """Blocks that fit into ``fraction`` of the bytes ``free`` after the weights, less the activation peak.

    Only what is free *now* counts, so memory of other processes is respected. One block more than the result is
    allocated (block 0). Raises ``OutOfMemory`` when not even one block fits.
    """
    budget = int(free * fraction) - activations
    blocks = budget // block_bytes - 1
    if blocks < 1:
        short = 2 * block_bytes - budget
        raise OutOfMemory(
            "token_budget, the model or the memory of other processes",
            f"at least {short / GIB:.2f} GiB (free {free / GIB:.2f} GiB x {fraction:g}, activations"
            f" {activations / GIB:.2f} GiB, one block {block_bytes / GIB:.4f} GiB)",
        )
    return blocks


def automatic_cpu_blocks(spec: ModelSpec, scheduling: SchedulingConfig) -> int:
    """Enough for every row at full context, above the watermark, within ``CPU_POOL_BYTES``."""
    block_bytes = spec.kv_bytes_per_token * scheduling.block_size
    rows = scheduling.max_num_seqs * math.ceil(spec.max_model_len / scheduling.block_size)
    enough = math.ceil(rows / (1 - scheduling.watermark)) + 1
    return max(1, min(enough, CPU_POOL_BYTES // block_bytes))


def free_bytes(device: torch.device) -> int:
    """Bytes that could be allocated now, as the driver or the operating system says."""
    if device.type == "cuda":
        torch.cuda.empty_cache()
        return torch.cuda.mem_get_info(device)[0]
    return available_memory()


def available_memory() -> int:
    """Main memory available without swapping (Linux; elsewhere a cautious 4 GiB)."""
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration):
        return 4 * GIB
