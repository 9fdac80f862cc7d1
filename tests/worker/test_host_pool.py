"""Blocks that leave the pool for the host and come back: every byte of every layer, in the order asked for."""

import random

import numpy as np
import pytest
import torch

from engine.errors import InvalidRequest, OutOfMemory
from engine.trace.events import Kind, Op
from engine.worker import host_pool
from engine.worker.host_pool import HostPool
from engine.worker.kv_cache import KVCache
from engine.worker.shapes import random_spec
from tests.worker.checkpoints import build, save, worker_for
from tests.worker.loop import serve
from tests.worker.test_whole_answers import GREEDY, prompts_of

BLOCKS, SLOTS = 90, 70
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]
KV_DTYPES = [torch.float32, torch.bfloat16, torch.int8, torch.float8_e4m3fn]


def filled_cache(kv_dtype: torch.dtype, block_size: int, device: str) -> KVCache:
    """A pool in which all bytes are random."""
    spec = random_spec("tiny", torch.float32, kv_dtype, 64)
    cache = KVCache(spec, BLOCKS, block_size, torch.device(device))
    for part in parts(cache):
        part.view(torch.uint8).random_(0, 256)
    return cache


def parts(cache: KVCache) -> list[torch.Tensor]:
    return [cache.data] if cache.scales is None else [cache.data, cache.scales]


def content(cache: KVCache) -> list[torch.Tensor]:
    """The bytes of each block, on the host: ``[blocks, bytes]`` per part."""
    return [part.view(torch.uint8).movedim(2, 0).flatten(1).cpu().clone() for part in parts(cache)]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("block_size", [1, 7, 16])
@pytest.mark.parametrize("kv_dtype", KV_DTYPES, ids=str)
def test_copies_are_done_one_after_the_other(kv_dtype, block_size, device):
    """Random steps, most with more copies than the stages hold: a slot named twice, a block that leaves and is
    overwritten in one step, a slot filled and read in one step, scales left behind, a stage used too early."""
    draw = random.Random(block_size)
    cache = filled_cache(kv_dtype, block_size, device)
    host = HostPool(cache, SLOTS)
    pool = content(cache)
    kept: list[dict[int, torch.Tensor]] = [{} for _ in pool]
    for _ in range(6):
        out = [(draw.randint(1, BLOCKS), draw.randrange(SLOTS)) for _ in range(draw.randint(0, 60))]
        known = sorted({slot for _, slot in out} | kept[0].keys())
        count = draw.randint(0, min(50, len(known)))
        into = list(zip(draw.sample(known, count), draw.sample(range(1, BLOCKS + 1), count)))
        host.swap(*(np.array(pairs, np.int32).ravel() for pairs in (out, into)))
        for rows, slots in zip(pool, kept):
            for block, slot in out:
                slots[slot] = rows[block].clone()
            for slot, block in into:
                rows[block] = slots[slot]
    assert all(torch.equal(now, expected) for now, expected in zip(content(cache), pool))


def test_a_block_is_one_piece_on_the_host():
    """All layers, keys and values of a block side by side, so that the link carries one large copy per block."""
    host = HostPool(filled_cache(torch.int8, 16, "cpu"), SLOTS)
    assert all(part.is_contiguous() and part.shape[0] == SLOTS for part in host.data)


def test_main_memory_is_counted(tmp_path, monkeypatch):
    """The memory map has the host blocks only where there are any; too many are refused in one line with the field."""
    worker = worker_for(save(build("llama"), tmp_path))
    assert not {"host_pool", "host_stages"} & worker.memory_map.keys()
    block_bytes = worker.spec.kv_bytes_per_token * worker.scheduling.block_size
    serve(worker, prompts_of((5,)), GREEDY, host_blocks=12)
    assert worker.memory_map["host_pool"] == 12 * block_bytes and worker.memory_map["host_stages"] == 0
    monkeypatch.setattr(host_pool, "available_memory", lambda: 11 * block_bytes)
    with pytest.raises(OutOfMemory, match="host_blocks"):
        serve(worker, prompts_of((5,)), GREEDY, host_blocks=13)
    with pytest.raises(InvalidRequest, match="host_blocks"):
        serve(worker, prompts_of((5,)), GREEDY, host_blocks=-1)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("in_flight", [0, 1])
def test_tokens_stay(tmp_path, device, in_flight):
    """Preempted requests resume from the host: a step that starts before its blocks have come in answers otherwise (on
    CUDA graphs replay behind the copies)."""
    limits = {"block_size": 16, "pool_blocks": 64}
    worker = worker_for(save(build("llama", seed=6), tmp_path), device=device, **limits)
    worker.warm_up()
    prompts = prompts_of((40, 70, 33, 60, 90, 50, 80, 64))
    alone = serve(worker, prompts, GREEDY, **limits)
    small = {"block_size": 16, "pool_blocks": 14, "steps_in_flight": in_flight, "host_blocks": 60, "swap": "always"}
    for _ in range(2):
        pressed = serve(worker, prompts * 2, GREEDY, **small)
        assert pressed.token_ids == alone.token_ids * 2
        assert pressed.count(Kind.KV, op=int(Op.SWAP_IN)) > 0
