"""Who loses its blocks, on pools small enough to count by hand, and who leaves room for whom."""

import pytest

from engine.config import SchedulingConfig
from engine.request import Request
from engine.trace.events import Cause, Leave, Reason, Step
from tests.scheduling.simulation import Simulation, make_request
from tests.scheduling.workloads import check_answers


def simulate(requests: list[Request], staggered: bool = False, **config: object) -> Simulation:
    """All requests at once, or one after each step, to the end. Blocks of four, no watermark, no prefix cache, unless
    ``config`` says so."""
    limits = {"block_size": 4, "max_num_seqs": 4, "max_model_len": 64, "watermark": 0.0, "prefix_cache": False}
    sim = Simulation(SchedulingConfig(**limits | config))
    for request in requests:
        sim.submit(request)
        if staggered:
            sim.round()
    sim.run()
    check_answers(sim)
    return sim


def first_victim(sim: Simulation) -> Leave:
    return next(leave for leave in sim.of(Leave) if leave.cause == Cause.PREEMPT)


def three(*priorities: int) -> list[Request]:
    """Prompts of 7, 3 and 7 tokens and 8 tokens of answer: together they outgrow six blocks."""
    lengths = (7, 3, 7)
    return [make_request(i, range(10 * i, 10 * i + lengths[i]), 8, priority=p) for i, p in enumerate(priorities)]


@pytest.mark.parametrize(
    ("preemption", "priorities", "victim"),
    [
        ("lifo", (1, 0, 0), 2),
        ("lowest-priority", (0, 0, 0), 2),
        ("lowest-priority", (1, 0, 0), 0),
        ("lowest-priority", (0, 1, 0), 1),
        ("cheapest", (0, 0, 0), 1),
    ],
)
def test_the_policy_chooses(preemption: str, priorities: tuple[int, int, int], victim: int):
    """The newest, the least important (of equal ones the newest), the one with the fewest tokens. Guards the order of
    planning too: a victim in the middle of the batch must not have been given a block in the same step."""
    sim = simulate(three(*priorities), staggered=True, pool_blocks=6, preemption=preemption)
    assert first_victim(sim).request == victim


def test_the_record_says_what_was_needed():
    """Two rows fill their blocks in the same step and one block is left: two needed, one there, the second lacks it."""
    requests = [make_request(i, range(10 * i, 10 * i + 4), 8) for i in range(2)]
    leave = first_victim(simulate(requests, pool_blocks=3))
    assert (leave.request, leave.for_request, leave.need, leave.have, leave.lost_tokens) == (1, 1, 2, 1, 4)


def test_cheapest_counts_what_stays_reclaimable():
    """With the prefix cache a long request loses less than a short one: 12 of its 13 tokens are hit again on resume."""
    for prefix_cache, victim in ((False, 1), (True, 0)):
        config = SchedulingConfig(pool_blocks=5, block_size=4, preemption="cheapest", prefix_cache=prefix_cache)
        sim, long, short = Simulation(config), make_request(0, range(13), 6), make_request(1, range(20, 23), 8)
        sim.scheduler.kv.grow(long, 13)
        sim.scheduler.kv.grow(short, 3)
        long.num_computed_tokens, short.num_computed_tokens = 13, 3
        assert sim.scheduler.victim.choose([long, short]).id == victim


def test_cheapest_takes_nobody_who_frees_nothing():
    """A request all of whose blocks are shared costs little, but preempting it would give no block to anyone."""
    sim = Simulation(SchedulingConfig(pool_blocks=8, block_size=4, preemption="cheapest"))
    kv, owner, sharer = sim.scheduler.kv, make_request(0, range(8), 6), make_request(1, range(8), 6)
    kv.grow(owner, 12)
    kv.open_table(sharer, owner.blocks[:2])
    owner.num_computed_tokens, sharer.num_computed_tokens = 11, 8
    assert sim.scheduler.victim.choose([owner, sharer]) is owner


def test_newcomers_leave_room_for_the_more_important():
    """Two more important rows run and two blocks are left. The newcomer needs one, but with one for the next step of
    each of them three: it would lose its row at once. An equally important one enters."""
    for priority, reason in ((1, Reason.PRIORITY), (0, Reason.NONE)):
        requests = [make_request(i, range(10 * i, 10 * i + 4), 9) for i in range(2)]
        requests.append(make_request(2, [7], 2, priority=priority))
        step = simulate(requests, pool_blocks=4, preemption="lowest-priority").of(Step)[0]
        numbers = (3, 2) if reason else (0, 0)
        assert (Reason(step.head_reason), step.head_need, step.head_have) == (reason, *numbers)


def test_nobody_waits_for_importance_where_blocks_are_promised():
    """Guaranteed blocks cannot be lost, so there is nothing to leave room for."""
    requests = [make_request(0, range(4), 5), make_request(1, [7], 2, priority=1)]
    step = simulate(requests, pool_blocks=3, capacity="guaranteed-no-evict", preemption="lowest-priority").of(Step)[0]
    assert len(step.chunk_rows) == 2
