"""Blocks in host memory: what the pool evicts waits here until it is hit again.

    pool  [2, layers, block, ...]  --gather-->  stage on the device  --a copy per block-->  host [slot, 2, layers, ...]

A block lies in 2 x layers pieces in the pool, but in one piece here, so that the link carries few large copies. On CUDA
the host memory is pinned and a stream of its own copies, in order: the step's stream waits only until a block has been
gathered (at the speed of device memory), or scattered when it comes in; the slow way over the link out of the device
overlaps with the step. The stages hold ``2 x GROUP`` blocks; a step that moves more waits for the link.
"""

from collections.abc import Callable, Iterator
from itertools import cycle

import torch
from torch import Tensor

from engine.errors import OutOfMemory
from engine.step import Int32
from engine.worker.kv_cache import GIB, KVCache, available_memory
from engine.worker.step_batch import Staging

GROUP, STAGES = 16, 2  # blocks of a stage, stages
WORDS = (torch.int64, torch.int32, torch.int16, torch.int8)


class HostPool:
    """``num_blocks`` slots beside ``cache``, ``num_bytes`` of main memory; ``OutOfMemory`` without room for them."""

    def __init__(self, cache: KVCache, num_blocks: int) -> None:
        parts = [cache.data] if cache.scales is None else [cache.data, cache.scales]
        pool = [_in_words(part).movedim(2, 0) for part in parts]  # [pool_blocks + 1, 2, layers, ...]
        cuda = cache.data.device.type == "cuda"
        self.num_bytes = _bytes(pool, num_blocks, cuda)
        short = self.num_bytes - available_memory()
        if short > 0:
            raise OutOfMemory("host_blocks", f"at least {short / GIB:.2f} GiB of main memory")
        self.data = [  # [num_blocks, 2, layers, ...], contiguous
            torch.empty(num_blocks, *part.shape[1:], dtype=part.dtype, pin_memory=cuda) for part in pool
        ]
        self._copies = Link(pool, self.data) if cuda else PlainCopies(pool, self.data)

    @property
    def stage_bytes(self) -> int:
        """Bytes on the device."""
        return self._copies.stage_bytes

    def swap(self, copy_out: Int32, copy_in: Int32) -> None:
        """Queue the copies of a step, before anything else of it."""
        if copy_out.size:
            self._copies.out(*copy_out.reshape(-1, 2).T.tolist())
        if copy_in.size:
            self._copies.into(*copy_in.reshape(-1, 2).T.tolist())


class PlainCopies:
    """On a CPU: one after the other, as a slot may be named twice."""

    stage_bytes = 0

    def __init__(self, pool: list[Tensor], host: list[Tensor]) -> None:
        self._pool, self._host = pool, host

    def out(self, blocks: list[int], slots: list[int]) -> None:
        """Pool ``blocks`` -> host ``slots``."""
        for pool, host in zip(self._pool, self._host):
            for block, slot in zip(blocks, slots):
                host[slot] = pool[block]

    def into(self, slots: list[int], blocks: list[int]) -> None:
        """Host ``slots`` -> pool ``blocks``."""
        for pool, host in zip(self._pool, self._host):
            for slot, block in zip(slots, blocks):
                pool[block] = host[slot]


class Link:
    """On CUDA: groups of blocks go through stages. A stage is ``free`` once whatever used it last is done."""

    def __init__(self, pool: list[Tensor], host: list[Tensor]) -> None:
        self._pool, self._host = pool, host
        device = pool[0].device
        self._stages = [[part.new_empty(GROUP, *part.shape[1:]) for part in pool] for _ in range(STAGES)]
        self._free = [torch.cuda.Event() for _ in range(STAGES)]
        self._filled = [torch.cuda.Event() for _ in range(STAGES)]
        self._turn = cycle(range(STAGES))
        self._link = torch.cuda.Stream(device)
        self._indices = Staging(device)

    @property
    def stage_bytes(self) -> int:
        """Bytes on the device."""
        return sum(part.nbytes for stage in self._stages for part in stage)

    def out(self, blocks: list[int], slots: list[int]) -> None:
        """Pool ``blocks`` -> host ``slots``. The step's stream goes on once they are gathered."""
        steps = torch.cuda.current_stream(self._link.device)
        for turn, group in self._groups(blocks, slots):
            steps.wait_event(self._free[turn])
            [index] = self._indices.send([[block for block, _ in group]])
            for part, stage in zip(self._pool, self._stages[turn]):
                torch.index_select(part, 0, index, out=stage[: len(group)])
            self._filled[turn].record(steps)
            self._link.wait_event(self._filled[turn])
            self._over_the_link(turn, [slot for _, slot in group], lambda host, staged: host.copy_(staged, True))
            self._free[turn].record(self._link)

    def into(self, slots: list[int], blocks: list[int]) -> None:
        """Host ``slots`` -> pool ``blocks``. The step's stream waits for them."""
        steps = torch.cuda.current_stream(self._link.device)
        for turn, group in self._groups(slots, blocks):
            self._link.wait_event(self._free[turn])
            self._over_the_link(turn, [slot for slot, _ in group], lambda host, staged: staged.copy_(host, True))
            self._filled[turn].record(self._link)
            steps.wait_event(self._filled[turn])
            [index] = self._indices.send([[block for _, block in group]])
            for part, stage in zip(self._pool, self._stages[turn]):
                part.index_copy_(0, index.long(), stage[: len(group)])
            self._free[turn].record(steps)

    def _groups(self, first: list[int], second: list[int]) -> Iterator[tuple[int, list[tuple[int, int]]]]:
        pairs = list(zip(first, second))
        for start in range(0, len(pairs), GROUP):
            yield next(self._turn), pairs[start : start + GROUP]

    def _over_the_link(self, turn: int, slots: list[int], copy: Callable[[Tensor, Tensor], object]) -> None:
        with torch.cuda.stream(self._link):
            for host, stage in zip(self._host, self._stages[turn]):
                for place, slot in enumerate(slots):
                    copy(host[slot], stage[place])


def stage_bytes(block_bytes: int) -> int:
    """Bytes that the stages take on a CUDA device."""
    return STAGES * GROUP * block_bytes


def _in_words(part: Tensor) -> Tensor:
    """The same memory as the largest whole numbers that a row of it consists of: copies need not know the format."""
    row = part.shape[-1] * part.itemsize
    return part.view(next(word for word in WORDS if row % word.itemsize == 0))


def _bytes(pool: list[Tensor], num_blocks: int, pinned: bool) -> int:
    """Main memory that ``num_blocks`` take. PyTorch rounds pinned memory up to a power of two."""
    sizes = [part[0].nbytes * num_blocks for part in pool]
    return sum(1 << (size - 1).bit_length() if pinned else size for size in sizes)
