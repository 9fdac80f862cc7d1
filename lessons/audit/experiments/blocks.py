"""The engine's own block pool and scheduler, run on small cases without a model."""

from collections import deque
from functools import cache
from itertools import pairwise
from random import Random

from engine.config import SchedulingConfig
from engine.request import Request, SamplingParams
from engine.scheduling.kv_cache_manager import KVCacheManager
from engine.scheduling.scheduler import Scheduler
from engine.workload import lengths
from lessons.audit.finding import Found, found
from lessons.audit.registry import experiment

LADDER, FINE = tuple(range(8, 129, 8)), (1, 2, 4, *range(8, 129, 8))  # the article's graphs, and with small ones
ROUNDS, POOL = 2000, 64
ROUNDS_TO_BELIEVE = 100  # without an end: it will not come


@experiment("block tables of two requests that grow in turn, from the engine's KV cache manager")
def block_tables() -> Found:
    """S0-31: a table grows, and its blocks need not follow one another."""
    manager, requests = _manager(24, False), [_request(index) for index in range(2)]
    for tokens in range(4, 41, 4):
        for request in requests:
            manager.grow(request, tokens)
    manager.pool.check_integrity([request.blocks for request in requests])
    table = requests[0].blocks
    jumps = sum(right != left + 1 for left, right in pairwise(table))
    return found(jumps > 0, blocks=len(table), jumps=jumps, first=table[0], last=table[-1])


@experiment("ids that one call of the engine's KV cache manager appends to the table of one request of 40 tokens")
def block_ids() -> Found:
    """S0-34: allocating takes the request and gives many ids."""
    manager, request = _manager(24, False), _request(0)
    given = manager.grow(request, request.num_tokens)
    return found(len(given) == 1, ids=len(given), tokens=(request.num_tokens, "tok"))


@experiment("2,000 random opens, grows and closes on 64 blocks; every count checked against the live tables each time")
def pool_invariants() -> Found:
    """S1-15: free + reclaimable + referenced = pool, at each of them."""
    owners = _most_owners()
    return found(True, rounds=ROUNDS, most_references=owners, blocks=POOL)


@experiment("most owners of a block over 2,000 random opens and closes of requests with common prefixes")
def block_flag() -> Found:
    """S0-33: a flag holds one owner."""
    owners = _most_owners()
    return found("partly" if owners > 1 else "holds", most_references=owners)


@cache
def _most_owners() -> int:
    """Open, grow and close tables at random; raises ``RuntimeError`` when a count is wrong."""
    draw, manager = Random(0), _manager(POOL, True)
    live: list[Request] = []
    shared = 0
    for index in range(ROUNDS):
        if live and (draw.random() < 0.4 or manager.pool.available < 12):
            manager.close_table(live.pop(draw.randrange(len(live))))
        else:
            live.append(_opened(manager, index, draw))
        shared = max(shared, max(manager.pool.refs))
        manager.pool.check_integrity([request.blocks for request in live])
    return shared


def _opened(manager: KVCacheManager, index: int, draw: Random) -> Request:
    """A new request of one of four prompts, with its prompt computed."""
    request = _request(index, [draw.randrange(4)] * draw.randrange(4, 40))
    manager.open_table(request, manager.find_hits(request))
    manager.grow(request, request.num_tokens)
    request.num_computed_tokens = request.num_tokens
    manager.hash_full_blocks(request, request.num_tokens)
    return request


@experiment("the article's loop on 4 blocks: three requests of two blocks each")
def lifo_defects() -> Found:
    """S0-39: which request goes, how often, and whether anything ends."""
    oldest_went, rounds = _published_preemption(requests=3, pool=4)
    ended = rounds < ROUNDS_TO_BELIEVE
    return found(ended and not oldest_went, oldest_evicted_first=float(oldest_went), rounds_without_a_token=rounds)


def _published_preemption(requests: int, pool: int) -> tuple[bool, int]:
    """The article's order: admit the head of waiting; while blocks lack, pop the back of running to the front of
    waiting; put the new one in front. Returns whether the oldest went first, and the rounds until it gave up."""
    waiting, running, free = deque(range(requests)), deque(), pool
    first_victim, rounds = None, 0
    while waiting and rounds < ROUNDS_TO_BELIEVE:
        new, rounds = waiting.popleft(), rounds + 1
        while free < 2:
            victim = running.pop()
            first_victim = victim if first_victim is None else first_victim
            free += 2
            waiting.appendleft(victim)
        free -= 2
        running.appendleft(new)
    return first_victim == 0, rounds


@experiment("StepInput of the engine's scheduler for prompts of 5, 9 and 2 tokens")
def packed_step() -> Found:
    """S0-29: a first step holds the prompts one behind the other."""
    scheduler = Scheduler(SchedulingConfig(max_num_seqs=4, token_budget=64), lambda event: None)
    for index, length in enumerate((5, 9, 2)):
        scheduler.add(_request(index, [1] * length))
    step = scheduler.schedule(0)
    tokens = int(step.num_tokens.sum())
    return found(tokens == 16, rows=len(step.rows), tokens=tokens, padded_would_be=3 * 9)


@experiment("longest * requests / sum of lengths of the race's prompts (16 to 64 tokens)")
def packing() -> Found:
    """S4-10: tokens of a padded prefill over those of a packed one."""
    prompts = [len(item.prompt_ids) for item in lengths.race(64, 1.0, 0, 512).items]
    groups = [prompts[i : i + 8] for i in range(0, 64, 8)]
    padded = sum(max(group) * len(group) for group in groups)
    return found(padded > sum(prompts), padded=(padded, "tok"), packed=(sum(prompts), "tok"))


@experiment("padded rows / rows over batches 1..8 and 1..128, graphs 8..128 step 8, without and with 1, 2, 4")
def graph_ladder() -> Found:
    """S0-62: what the article's sizes pad."""
    return found(
        "partly",
        small_batches=(_padding(LADDER, 8), "share"),
        small_batches_fine=(_padding(FINE, 8), "share"),
        all_batches=(_padding(LADDER, 128), "share"),
        single_row=(LADDER[0], "x"),
    )


def _padding(ladder: tuple[int, ...], most: int) -> float:
    """Share of computed rows that is padding, batches 1..``most`` equally often."""
    taken = sum(next(size for size in ladder if size >= rows) for rows in range(1, most + 1))
    return 1 - sum(range(1, most + 1)) / taken


def _manager(blocks: int, prefix_cache: bool) -> KVCacheManager:
    """Blocks of 4 tokens."""
    return KVCacheManager(SchedulingConfig(pool_blocks=blocks, block_size=4, prefix_cache=prefix_cache))


def _request(index: int, prompt: list[int] | None = None) -> Request:
    prompt = prompt or list(range(40))
    return Request(index, prompt, SamplingParams(max_tokens=8), 8, seed=0)
