"""Public bug reports of kinds (a) block manager and (b) scheduler, where they can be tested without a model.

Each test carries the id of its report. Answers are checked against ``reference_answer`` (the request alone), KV reads
by the oracle, block counts and the trace at every step by ``Simulation``. Reports that need the engine or a model
(B-07, B-08, B-11, B-12) are tested there. ``tests/test_bug_report_ids.py`` holds the list of all reports.
"""

import pytest

from engine.config import SchedulingConfig
from engine.request import Request
from engine.scheduling.block_pool import BlockPool
from engine.scheduling.kv_cache_manager import KVCacheManager, block_hash
from engine.trace.events import Admit, Apply, Cause, Leave, Reason, Step
from tests.scheduling.oracle import reference_answer
from tests.scheduling.simulation import Simulation, make_request
from tests.scheduling.workloads import check_answers

ONE_TO_EIGHT = range(1, 9)


def simulation(pool_blocks: int, **config: object) -> Simulation:
    """Block size 4 and room for everything that is not named."""
    limits = {"block_size": 4, "max_num_seqs": 8, "token_budget": 64, "max_model_len": 64} | config
    return Simulation(SchedulingConfig(pool_blocks=pool_blocks, **limits))


def manager(pool_blocks: int, **config: object) -> KVCacheManager:
    """Block tables alone, of blocks of four."""
    return KVCacheManager(SchedulingConfig(pool_blocks=pool_blocks, block_size=4, **config))


def run_together(sim: Simulation, *requests: Request) -> None:
    """All at once, to the end."""
    assert all([sim.submit(request) for request in requests])
    sim.run()
    check_answers(sim)


def run_each(sim: Simulation, *requests: Request) -> None:
    """One after the other."""
    for request in requests:
        run_together(sim, request)


@pytest.mark.parametrize("prompt", [ONE_TO_EIGHT, range(1, 5)])
def test_A_01_prompt_of_whole_blocks_runs_again(prompt: range):
    """All blocks of the prompt hit the cache and no token is left to compute."""
    sim = simulation(16)
    first, second = (make_request(i, prompt, 4) for i in range(2))
    run_each(sim, first, second)
    run_together(sim, *(make_request(i, prompt, 4) for i in range(2, 5)))
    assert second.num_cached_tokens == len(prompt) - 4
    assert all(request.output_ids == first.output_ids for request in sim.requests)


def test_A_02_evicted_content_is_forgotten():
    """A block handed to somebody else still answers to its old hash."""
    sim = simulation(3)
    x, y, again = make_request(0, range(8), 1), make_request(1, range(20, 31), 1), make_request(2, range(8), 1)
    run_each(sim, x, y, again)
    assert again.num_cached_tokens == 0 and again.output_ids == x.output_ids


def test_A_03_twins_admitted_together():
    """Identical prompts of one step: the later registration overwrites the earlier one."""
    sim = simulation(24)
    run_together(sim, make_request(0, range(9), 4), make_request(1, range(9), 4))
    third = make_request(2, range(9), 4)
    run_together(sim, third)
    assert third.num_cached_tokens == 8 and sim.free == 24


def test_A_04_preempted_request_hits_its_own_blocks():
    """The number of tokens to run is fixed before the hit on the request's own old blocks is found."""
    sim = simulation(5)
    run_together(sim, make_request(0, range(7), 8), make_request(1, range(20, 27), 8))
    assert sum(request.num_preemptions for request in sim.requests) >= 1
    resumed = [admit for admit in sim.of(Admit) if admit.resumed]
    assert any(admit.hit_tokens for admit in resumed)


def test_A_05_when_a_decode_needs_a_block():
    """Off by one: a needless block, or a write behind the table."""
    kv = manager(1, prefix_cache=False)
    request = make_request(0, range(3), 9)
    kv.grow(request, 3)
    assert kv.pool.available == 0
    assert kv.blocks_for(4) == len(request.blocks) and kv.blocks_for(5) > len(request.blocks)
    kv, request = manager(16, prefix_cache=False), make_request(0, range(3), 9)
    for length in range(1, 14):
        kv.grow(request, length)
        assert len(request.blocks) == -(-length // 4)


def test_A_06_ids_are_hashed_whole():
    """Ids that differ only in high bits share a hash."""
    sim = simulation(16)
    one, other = make_request(0, [65] * 9, 1), make_request(1, [321] * 9, 1)
    run_each(sim, one, other)
    assert other.num_cached_tokens == 0
    assert len({block_hash(b"", [5 + shift]) for shift in (0, 1 << 8, 1 << 16, 1 << 32)}) == 4
    assert block_hash(b"", [1, 2]) != block_hash(b"", [2, 1])


def test_A_07_other_weights_share_nothing():
    """KV computed under other weights is reused: after a reset, or under another salt (adapter), nothing hits."""
    sim = simulation(16)
    requests = [make_request(0, range(9), 1), make_request(1, range(9), 1, salt=7), make_request(2, range(9), 1)]
    run_each(sim, *requests[:2])
    sim.reset_prefix_cache()
    run_together(sim, requests[2])
    assert [request.num_cached_tokens for request in requests] == [0, 0, 0]


def test_A_08_fully_cached_prompt_stays_in_the_chain():
    """The block whose last token is computed again drops out of the chain, and longer prompts hit less."""
    sim = simulation(16)
    longer = make_request(2, range(12), 1)
    run_each(sim, make_request(0, range(8), 1), make_request(1, range(8), 1), longer)
    assert longer.num_cached_tokens == 8


def test_A_09_partly_filled_blocks_are_private():
    """Prompts that part ways inside a block match too far."""
    sim = simulation(16)
    second = make_request(1, [1, 2, 3, 4, 5, 9], 1)
    run_each(sim, make_request(0, [1, 2, 3, 4, 5, 6], 1), second)
    assert second.num_cached_tokens == 4


@pytest.mark.parametrize(("eviction", "hits"), [("lru", 2), ("priority", 2), ("flat-lru", 0)])
def test_A_10_deepest_block_is_evicted_first(eviction: str, hits: int):
    """Evicting the head of a chain makes its tail unreachable. ``flat-lru`` does so on purpose, to show it."""
    for _ in range(50):
        kv, chain = manager(3, eviction=eviction), make_request(0, range(12), 1)
        kv.grow(chain, 12)
        chain.num_computed_tokens = 12
        kv.close_table(chain)
        kv.grow(make_request(1, [1], 1), 1)
        assert len(kv.find_hits(make_request(2, range(13), 1))) == hits


@pytest.mark.parametrize("prefix_cache", [False, True])
def test_A_11_pool_does_not_shrink(prefix_cache: bool):
    """One block is lost per finished request."""
    sim = simulation(64, prefix_cache=prefix_cache)
    for number in range(200):
        sim.submit(make_request(number, range(1 + number % 13), 1 + number % 9))
        sim.round()
    sim.run()
    check_answers(sim)
    assert sim.free == 64 and not sim.scheduler.roster._live


def test_A_12_integrity_check_names_the_block():
    """A check that compares only totals overlooks a block that is both free and held."""

    def pool_with_table() -> tuple[BlockPool, list[int]]:
        pool = BlockPool(4)
        table = pool.take(2)
        pool.register(table[0], b"content")
        pool.check_integrity([table])
        return pool, table

    pool, table = pool_with_table()
    pool._unreferenced.put(table[1])
    with pytest.raises(RuntimeError, match=f"block {table[1]}"):
        pool.check_integrity([table])
    pool, table = pool_with_table()
    pool.refs[table[1]] = 0
    with pytest.raises(RuntimeError, match=f"block {table[1]}"):
        pool.check_integrity([table])
    pool, table = pool_with_table()
    pool._block_of[b"other"] = table[0]
    with pytest.raises(RuntimeError, match=f"block {table[0]}"):
        pool.check_integrity([table])


def test_B_01_request_larger_than_the_pool():
    """A request that outgrows the pool alone ends the engine, or is retried for ever."""
    sim = simulation(4)
    refuse = sim.scheduler.refusal(make_request(0, range(6), 20))
    assert (refuse.reason, refuse.need, refuse.have) == (Reason.NEVER_FITS, 7, 4)
    assert not sim.submit(make_request(1, range(6), 20))
    run_together(sim, make_request(2, range(4), 2))


@pytest.mark.parametrize("preemption", ["lifo", "lowest-priority", "cheapest"])
def test_B_02_preempted_goes_before_those_never_started(preemption: str):
    """A preempted request falls behind new ones and is computed again and again."""
    sim = simulation(6, max_num_seqs=2, preemption=preemption)
    lengths = [12, 12, 4, 4]
    run_together(sim, *(make_request(i, range(10 * i, 10 * i + 7), length) for i, length in enumerate(lengths)))
    order = [admit.request for admit in sim.of(Admit)]
    preempted = next(leave.request for leave in sim.of(Leave) if leave.cause == Cause.PREEMPT)
    assert order[2] == preempted and preempted in (0, 1)
    assert max(request.num_preemptions for request in sim.requests) <= 3


@pytest.mark.parametrize("generated", [1, 3, 6])
def test_B_03_resume_computes_prompt_and_answer(generated: int):
    """Only the prompt is prefilled again, and the answer is cut or starts anew."""
    sim, request = simulation(16, prefix_cache=False), make_request(0, range(5), 8)
    sim.submit(request)
    while request.num_output_tokens < generated:
        sim.round()
    sim.scheduler.roster.preempt(request, for_request=request, need=1)
    sim.run()
    check_answers(sim)
    last_chunk = [step for step in sim.of(Step) if step.chunk_rows][-1]
    assert last_chunk.chunk_tokens == [5 + generated]


def test_B_04_tokens_are_counted_once():
    """Tokens computed again after a preemption are counted as new ones."""
    sim = simulation(5)
    run_together(sim, make_request(0, range(7), 8), make_request(1, range(20, 27), 8))
    assert sum(len(apply.token_ids) for apply in sim.of(Apply)) == 16


def test_B_05_abort_between_two_chunks():
    """A request aborted in the middle of its prompt stays among the ongoing prefills."""
    sim = simulation(16, token_budget=4, max_num_seqs=4)
    decoding, aborted = make_request(0, [7, 7], 12), make_request(1, range(20), 4)
    sim.submit(decoding)
    sim.round()
    sim.submit(aborted)
    sim.round()
    sim.round()
    assert 0 < aborted.num_computed_tokens < 20
    assert sim.finish(aborted, Cause.ABORT)
    sim.run()
    check_answers(sim)


def test_B_06_abort_is_idempotent():
    """Two clean-up paths remove the same request."""
    sim = simulation(16)
    aborted, other = make_request(0, range(5), 8), make_request(1, range(5), 8)
    sim.submit(aborted)
    sim.submit(other)
    sim.round()
    assert sim.finish(aborted, Cause.ABORT)
    assert not sim.finish(aborted, Cause.ABORT)
    assert not sim.scheduler.finish(99, Cause.ABORT)
    sim.run()
    check_answers(sim)
    assert not sim.finish(other, Cause.ABORT)


def test_B_09_whole_prompts_keep_the_budget():
    """Without chunked prefill a step exceeds the token budget."""
    sim = simulation(16, token_budget=8, chunked_prefill=False)
    assert sim.scheduler.refusal(make_request(9, range(12), 2)).reason == Reason.TOKEN_BUDGET
    run_together(sim, make_request(0, range(6), 3), make_request(1, range(10, 16), 3))
    chunks = [step.chunk_tokens for step in sim.of(Step) if step.chunk_tokens]
    assert chunks == [[6], [6]]
    assert max(step.used for step in sim.of(Step)) <= 8


def test_B_09_long_resumed_context_still_ends():
    """A context that outgrew the budget before its preemption could never run whole again."""
    sim = simulation(16, token_budget=8, chunked_prefill=False, prefix_cache=False)
    request = make_request(0, range(6), 20)
    sim.submit(request)
    while request.num_output_tokens < 10:
        sim.round()
    sim.scheduler.roster.preempt(request, for_request=request, need=1)
    sim.run()
    check_answers(sim)


def test_B_10_context_limit():
    """A prompt longer than the context crashes the worker; one that just fits gets exactly one token."""
    sim = simulation(16, max_model_len=32)
    refuse = sim.scheduler.refusal(make_request(0, range(32), 10))
    assert (refuse.reason, refuse.need, refuse.have) == (Reason.TOO_LONG, 33, 32)
    longest = make_request(1, range(31), 10)
    run_each(sim, longest, make_request(2, range(4), 2))
    assert longest.num_output_tokens == 1 and sim.ended[1] == Cause.LENGTH


@pytest.mark.parametrize(("window_ms", "first_batch"), [(0.0, 1), (10.0, 8)])
def test_I_03_window_collects_full_batches(window_ms: float, first_batch: int):
    """With a delay of 0 batches are ragged, which surprises; with 10 ms all eight arrivals run together."""
    sim = simulation(64, batching="dynamic", window_ms=window_ms, preferred_sizes=())
    for number in range(8):
        sim.submit(make_request(number, range(4), 20))
        sim.round(sleep=False)
    sim.run()
    check_answers(sim)
    until_first_step = sim.events[: next(i for i, event in enumerate(sim.events) if isinstance(event, Step))]
    assert sum(isinstance(event, Admit) for event in until_first_step) == first_batch


def test_I_07_two_capacity_policies():
    """No-evict leaves the pool half empty, max-utilization preempts: the same answers either way."""
    most_running = {}
    for policy in ("guaranteed-no-evict", "max-utilization"):
        sim = simulation(8, capacity=policy, watermark=0.0)
        run_together(sim, *(make_request(i, range(10 * i, 10 * i + 4), 12) for i in range(6)))
        most_running[policy] = max(len(step.rows) for step in sim.steps)
        preemptions = sum(request.num_preemptions for request in sim.requests)
        assert (preemptions > 0) == (policy == "max-utilization")
        assert sim.requests[0].output_ids == reference_answer(sim.requests[0], 64)
    assert most_running["guaranteed-no-evict"] <= 2 < most_running["max-utilization"]
