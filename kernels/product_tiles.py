"""Which tile a product of 9 to 64 tokens runs with (``products``), and when cuBLAS is as fast.

A rule drawn from sweeps on an H200, on shapes alone; a tile that was measured on this machine (``tuning``) goes first.
"""

from functools import lru_cache
from typing import NamedTuple

import torch

from kernels import tuning
from kernels.backend import triton

KERNEL = "product"  # its name among tuned tiles
MAX_ROWS = 64  # with more, cuBLAS and separate norm and activation are as fast
PROGRAMS = 132  # multiprocessors of a large GPU: beyond it two programs share one, and its shared memory


class Tile(NamedTuple):
    """What a program computes, and how: sizes of its tiles, programs that share K, tiles in flight."""

    block_m: int
    block_n: int
    block_k: int
    splits: int
    stages: int


COMPOSED = Tile(0, 0, 0, 0, 0)  # a choice too: no tile is faster than cuBLAS and what surrounds it


def is_faster(rows: int, outputs: int, inputs: int, norm: bool, gated: bool) -> bool:
    """Whether norm kernel + this product beat norm + cuBLAS + activation, by sweeps on an H200; never on fp32.

    Up to 32 rows nearly always (by 2 to 40 %). Beyond, x weighs as much as the weight, and only small weights gain.
    """
    if rows <= 16:
        return outputs <= 16384
    if rows <= 32:
        return outputs <= 16384 and not (norm and not gated and inputs > 1024)
    return rows <= MAX_ROWS and ((inputs <= 1024 and outputs <= 8192) or outputs * inputs <= 3_200_000)


def rows_of(rows: int) -> int:
    """Rows of x in a tile: tensor cores take them in powers of 2 from 16."""
    return max(16, triton.next_power_of_2(rows))


@lru_cache
def shared_memory(device: torch.device) -> int:
    """Bytes that the tiles of a program may take: 226 KB on an H200, 98 KB on a desktop card."""
    if device.type != "cuda":
        return 226 << 10
    return torch.cuda.get_device_properties(device).shared_memory_per_block_optin - 1024


def tile(rows: int, outputs: int, inputs: int, shared: int) -> Tile | None:
    """The tile of a product with a weight (outputs, inputs), from sweeps on an H200; None where no tile divides it.

    ``shared``: bytes of shared memory that it may take.

    Many outputs: all of K to each program. Few: K is split until about half of the multiprocessors have a program (the
    other half then belongs to the kernel behind), or most of them for a long K or many rows.
    """
    block_m = rows_of(rows)
    block_n = 32 if block_m == 64 and outputs <= 4096 else 128 if 64 < outputs / PROGRAMS <= 128 else 64
    block_k = 128
    if inputs % block_k or outputs % block_n:
        return None
    tiles, steps, splits = outputs // block_n, inputs // block_k, 1
    wanted = 96 if block_m == 64 or inputs >= 4096 else 48
    while tiles * splits < wanted and splits * 2 <= min(steps, 8):
        splits *= 2
    deepest = 4 if tiles * splits > PROGRAMS or block_n == 128 else 6 if block_m + block_n <= 96 else 5
    stages = min(deepest, -(-steps // splits) + 1, shared // _stage_bytes(block_m, block_n, block_k))
    return Tile(block_m, block_n, block_k, splits, max(2, stages))


def _stage_bytes(block_m: int, block_n: int, block_k: int) -> int:
    return 2 * (block_m + block_n) * block_k


@lru_cache(maxsize=4096)
def choose(rows: int, outputs: int, inputs: int, norm: bool, gated: bool, device: torch.device) -> Tile | None:
    """The tile that was measured on this machine, else that of the rule; None where cuBLAS is as fast."""
    if rows > MAX_ROWS:
        return None
    key = tuning_key(rows, outputs, inputs, norm, gated)
    kept = tuning.chosen(KERNEL, key, candidates(rows, outputs, inputs, shared_memory(device)), device)
    if kept is not None:
        return None if kept == COMPOSED else kept
    if not is_faster(rows, outputs, inputs, norm, gated):
        return None
    return tile(rows, outputs, inputs, shared_memory(device))


def tuning_key(rows: int, outputs: int, inputs: int, norm: bool, gated: bool) -> str:
    """Shapes that share a choice: all rows of a ``block_m``."""
    return f"{outputs} x {inputs}, {rows_of(rows)} rows" + ", norm" * norm + ", gated" * gated


def candidates(rows: int, outputs: int, inputs: int, shared: int) -> list[Tile]:
    """What tuning tries: the library, and the tiles that divide the weight and fit into ``shared`` bytes."""
    block_m = rows_of(rows)
    tiles = [
        Tile(block_m, block_n, block_k, splits, stages)
        for block_n in (32, 64, 128)
        for block_k in (64, 128)
        for splits in (1, 2, 4, 8)
        for stages in (4, 5, 6)
        if outputs % block_n == inputs % (block_k * splits) == 0
        and (block_n > 32 or block_m == 64)
        and stages * _stage_bytes(block_m, block_n, block_k) <= shared
        and 48 <= outputs // block_n * splits <= 512
    ]
    return [COMPOSED, *tiles]
