"""Host blocks: what the pool evicts, what comes back, and what a step that fails leaves behind."""

import random
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.config import SchedulingConfig
from engine.errors import InvalidRequest
from engine.scheduling import swapping
from engine.scheduling.host_tier import HostTier
from engine.scheduling.kv_cache_manager import KVCacheManager
from engine.scheduling.swapping import IN_HOST, cheapest
from engine.trace.events import KV, Admit, Cause, Event, Op
from tests.scheduling.oracle import Mismatch
from tests.scheduling.simulation import Simulation, make_request
from tests.scheduling.workloads import POLICIES, random_config, random_workload, run

SMALL = SchedulingConfig(
    pool_blocks=6, block_size=4, max_num_seqs=2, token_budget=32, watermark=0.0, host_blocks=8, swap="always"
)
OFFLOADED = [i for i, policy in enumerate(POLICIES) if policy[0] == "in-flight" and policy[3]]


def busy(seed: int, swap: str, checks: bool = True) -> Simulation:
    """A random workload of returning prompts on a pool that is too small for them, with host blocks."""
    draw = random.Random(seed)
    work = random_workload(draw, draw.choice(OFFLOADED), draw.randrange(2, 162, 3))
    prompts = [request.prompt_ids for requests in work.arrivals.values() for request in requests]
    for requests in work.arrivals.values():
        for request in requests:
            if draw.random() < 0.6:
                request.prompt_ids = list(draw.choice(prompts))
                request.token_ids = list(request.prompt_ids)
    if draw.random() < 0.4:
        work.fails = {draw.randint(0, 40) for _ in range(3)}
    work.config = replace(work.config, host_blocks=draw.choice((1, 3, 8, 40)), swap=swap)
    return run(work, checks)


def pairs(sim: Simulation, op: Op) -> list[int]:
    """The numbers of all KV records of a kind."""
    return [number for record in sim.of(KV) if record.op == op for number in record.blocks]


@pytest.mark.parametrize(("swap", "blocks"), [("always", 80), ("cheaper", 30)])
def test_returning_prompts(swap, blocks):
    """The oracle where it matters: prompts come back after their blocks have left, launches fail on the way, and every
    slot that is read holds what was written. StepInput asks for exactly the copies that the trace tells of."""
    out, into, failed = 0, 0, 0
    for seed in range(150):
        sim = busy(seed, swap)
        asked = [number for step in sim.steps for number in step.copy_in.tolist()]
        assert asked == pairs(sim, Op.SWAP_IN)
        asked = [number for step in sim.steps for number in step.copy_out.tolist()]
        assert asked == pairs(sim, Op.SWAP_OUT)
        out, into = out + len(asked) // 2, into + len(pairs(sim, Op.SWAP_IN)) // 2
        failed += any(cause == Cause.ERROR for cause in sim.ended.values())
    assert out > 500 and into > blocks and failed > 5


def without_waiting_for_a_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = HostTier.claim

    def claim(tier: HostTier, content: bytes) -> int:
        slot = honest(tier, content)
        tier._free.append(tier._leaving.pop())
        return slot

    monkeypatch.setattr(HostTier, "claim", claim)


def without_doubt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HostTier, "doubt", lambda tier: None)


def registered_before_it_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = KVCacheManager.open_table

    def open_table(kv: KVCacheManager, request: object, hits: list[int]) -> int:
        honest(kv, request, hits)
        kv.hash_full_blocks(request, len(hits) * kv.block_size)
        return len(hits) * kv.block_size

    monkeypatch.setattr(KVCacheManager, "open_table", open_table)


def wrong_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = HostTier.copy_in
    monkeypatch.setattr(HostTier, "copy_in", lambda tier, slots, blocks: honest(tier, slots[::-1], blocks))


def nothing_goes_out(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = HostTier.launch
    monkeypatch.setattr(HostTier, "launch", lambda tier: (honest(tier)[1][:0], honest(tier)[1]))


FAULTS = [without_waiting_for_a_slot, without_doubt, registered_before_it_is_there, wrong_slot, nothing_goes_out]


@pytest.mark.parametrize("fault", FAULTS)
def test_the_oracle_sees(fault: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch):
    """Guards against a blind oracle: each fault that offload invites must end in a read of foreign KV, with all other
    checks switched off."""
    fault(monkeypatch)
    with pytest.raises(Mismatch, match="reads foreign KV"):
        for seed in range(3000):
            busy(seed, "always", checks=False)


@pytest.mark.parametrize("off", [{"host_blocks": 0}, {"swap": "never"}, {"prefix_cache": False}])
def test_off_is_off(off):
    """Without host blocks, with swap never, and without a prefix cache nothing is copied, and the trace is the same to
    the record as it was before there was a host."""
    config = replace(SMALL, **off)
    sim, plain = (Simulation(each) for each in (config, replace(config, host_blocks=0, swap="cheaper")))
    for each in (sim, plain):
        each.run_each(*(make_request(i, [i % 3] * 17, 6) for i in range(9)))
    assert sim.scheduler.kv.host is None
    assert sim.events[1:] == plain.events[1:] and not pairs(sim, Op.SWAP_OUT)
    assert all(not step.copy_out.size and not step.copy_in.size for step in sim.steps)


def test_a_prompt_comes_back():
    """Full blocks are evicted by another prompt and come back with one admission, behind what the pool still has of
    them; the last token is computed. Each slot that was read is empty afterwards."""
    sim = Simulation(SMALL)
    sim.run_each(make_request(0, range(17), 2), make_request(1, range(100, 120), 2), make_request(2, range(17), 2))
    last = sim.of(Admit)[-1]
    assert last.hit_tokens == 16
    blocks = pairs(sim, Op.SWAP_IN)[1::2]
    assert blocks and set(blocks) <= set(last.hit_blocks)
    assert len(sim.scheduler.kv.host.held()) == len(pairs(sim, Op.SWAP_OUT)) // 2 - len(blocks)
    assert sim.requests[2].output_ids == sim.requests[0].output_ids


def test_preempted_blocks_resume_from_the_host():
    """Two answers that outgrow the pool: the victim's full blocks go to the host when they are taken, and come back."""
    sim = Simulation(replace(SMALL, pool_blocks=5))
    for number in range(2):
        assert sim.submit(make_request(number, range(50 * number, 50 * number + 8), 12))
    sim.run()
    events: list[Event] = sim.events
    resumed = next(i for i, event in enumerate(events) if isinstance(event, Admit) and event.resumed)
    assert isinstance(events[resumed - 1], KV) and events[resumed - 1].op == Op.SWAP_IN


def test_a_failed_launch_brings_nothing():
    """Neither what it was to copy in nor what it was to copy out can be hit afterwards."""
    sim = Simulation(SMALL)
    sim.run_each(make_request(0, range(17), 2), make_request(1, range(100, 120), 2))
    assert sim.submit(make_request(2, range(17), 2))
    sim.worker.fail_next = True
    sim.round()
    assert sim.steps[-1].copy_in.size and sim.ended[2] == Cause.ERROR
    asked = sim.steps[-1].copy_out.reshape(-1, 2)[:, 1].tolist()
    assert asked and not set(asked) & set(sim.scheduler.kv.host.held())
    sim.run()
    hits = sim.scheduler.kv.find_hits(make_request(3, range(17), 2))
    assert len(hits) < 4
    sim.run_each(make_request(4, range(17), 2), make_request(5, range(100, 120), 2))
    assert sim.requests[3].output_ids == sim.requests[0].output_ids


def test_reset_forgets_the_host_too():
    """Content of before a reset must not come back by way of the host."""
    sim = Simulation(SMALL)
    sim.run_each(make_request(0, range(17), 2), make_request(1, range(100, 120), 2))
    assert sim.scheduler.kv.host.held()
    sim.reset_prefix_cache()
    assert not sim.scheduler.kv.host.held() and not sim.scheduler.kv.find_hits(make_request(2, range(17), 2))


def test_the_oldest_content_is_lost():
    """The host is full: what left the pool first makes room. The deepest blocks of a prefix leave first, so what is
    left of it can still be hit."""
    tier = HostTier(2)
    for block, content in enumerate((b"c", b"b", b"a"), 1):
        tier.put(content, block)
    assert b"c" not in tier and b"b" in tier and b"a" in tier
    assert [record.blocks for record in tier.records()] == [[2, 1, 3, 0]]
    assert tier.launch()[0].tolist() == [2, 1, 3, 0]


@given(st.lists(st.sampled_from([IN_HOST, 7]), max_size=12), st.floats(0.1, 5), st.floats(0.1, 5))
def test_cheaper_is_the_cheapest_cut(hits, swap_us, prefill_us):
    """Against trying every cut: what is taken from the host is copied, all behind the cut is computed again."""

    def cost(cut: int) -> float:
        return swap_us * hits[:cut].count(IN_HOST) + prefill_us * (len(hits) - cut)

    cut = cheapest(swap_us, prefill_us)(hits)
    assert cost(cut) == pytest.approx(min(map(cost, range(len(hits) + 1))))


@pytest.mark.parametrize(
    ("swap_us", "prefill_us", "hits", "taken"),
    [
        (1.0, 2.0, [7, 0, 0], 3),  # a copy is cheaper
        (2.0, 1.0, [7, 0, 0], 1),  # computing is cheaper
        (2.0, 1.0, [0, 7, 7], 3),  # one dear copy opens two blocks that are in the pool
        (0.0, 0.0, [7, 0], 2),  # nothing is known: it comes back
    ],
)
def test_what_comes_back(swap_us, prefill_us, hits, taken):
    """The chooser looks at the whole prefix, not at one block."""
    assert cheapest(swap_us, prefill_us)(hits) == taken


def test_the_policy_follows_the_configuration():
    """``swap`` has one place where it is looked at."""
    assert swapping.policy(replace(SMALL, swap="always")) is swapping.everything
    assert swapping.policy(replace(SMALL, swap="cheaper", swap_us_per_token=2.0, prefill_us_per_token=1.0))([0]) == 0


@pytest.mark.parametrize(
    ("field", "value"),
    [("host_blocks", -1), ("swap", "often"), ("swap_us_per_token", -1.0), ("prefill_us_per_token", float("inf"))],
)
def test_bad_settings_are_named(field, value):
    """One line with the field and what it takes."""
    with pytest.raises(InvalidRequest, match=f"{field}: "):
        replace(SMALL, **{field: value}).validate()


def test_random_configurations_reach_every_swap():
    """The workloads of the oracle draw host blocks and both ways of using them."""
    found = {(c.swap, bool(c.host_blocks)) for c in (random_config(random.Random(0), 0, more) for more in range(162))}
    assert found == {("never", False), ("always", True), ("cheaper", True)}
