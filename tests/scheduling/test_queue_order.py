"""Who is first in the queue: priorities, aging, deadlines, preempted requests, and nobody starves."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.config import SchedulingConfig
from engine.errors import InvalidRequest
from engine.trace.events import Admit, Arrive, Cause, Leave, Step
from tests.scheduling.simulation import Simulation, make_request
from tests.scheduling.workloads import MORE_POLICIES, POLICIES, check_answers, random_workload, run

MS = 1_000_000


def queue(config: SchedulingConfig, *arrivals: tuple[int, int]) -> list[int]:
    """The queue after requests 0, 1, ... came at (ms, priority)."""
    sim = Simulation(config)
    for number, (at_ms, priority) in enumerate(arrivals):
        sim.now_ns = at_ms * MS
        sim.submit(make_request(number, [1], 1, priority=priority))
    assert sim.state.snapshot() == sim.scheduler.snapshot()
    return sim.scheduler.snapshot()["waiting"]


def test_by_priority_then_arrival():
    """Equal priorities must keep the order of arrival."""
    assert queue(SchedulingConfig(), (0, 0), (0, 0), (0, -1), (0, 5), (0, 0)) == [2, 0, 1, 4, 3]


def test_aging_gains_one_level_in_its_time():
    """With 10 ms a level, two levels are worth 20 ms: a lead of 19 is not enough to stay in front, one of 21 is."""
    config = SchedulingConfig(aging_s=0.010)
    assert queue(config, (0, 2), (19, 0)) == [1, 0]
    assert queue(config, (0, 2), (21, 0)) == [0, 1]
    assert queue(replace(config, aging_s=0.0), (0, 2), (21, 0)) == [1, 0]


def test_earliest_deadline_first():
    """Due at 50, 30 and 25 ms."""
    assert queue(SchedulingConfig(queue_order="deadline"), (0, 50), (10, 20), (20, 5)) == [2, 1, 0]


@pytest.mark.parametrize(("aging_s", "starves"), [(0.0, True), (0.050, False)])
def test_nobody_starves_with_aging(aging_s: float, starves: bool):
    """More important requests keep one row busy for ever. Without aging the other one waits as long as they come; with
    50 ms a level it is overtaken only by those that came within 50 ms of it."""
    sim = Simulation(SchedulingConfig(max_num_seqs=1, token_budget=8, aging_s=aging_s))
    sim.submit(make_request(0, [5], 3, priority=1))
    for number in range(1, 200):  # each takes three steps of 1 ms; one comes every 2 ms
        sim.submit(make_request(number, [number], 3))
        sim.round()
        sim.round()
    admitted = [admit.request for admit in sim.of(Admit)]
    assert (0 not in admitted) == starves
    if not starves:
        assert admitted.index(0) <= 1 + 50 // 2
    sim.run()
    check_answers(sim)


def test_preempted_stands_in_front_of_its_equals_only():
    """A preempted request must not fall behind its equals, nor hold up who is more important."""
    sim = Simulation(SchedulingConfig(pool_blocks=16, block_size=4, max_num_seqs=1))
    first = make_request(0, range(5), 8)
    sim.submit(first)
    sim.round()
    for number, priority in ((1, 0), (2, -1), (3, 1)):
        sim.submit(make_request(number, [number], 1, priority=priority))
    sim.scheduler.roster.preempt(first, for_request=first, need=1)
    assert sim.scheduler.snapshot()["waiting"] == [2, 0, 1, 3]


def test_many_may_wait():
    """30,000 arrivals in order, then an urgent one: quadratic time would never end."""
    sim = Simulation(SchedulingConfig(), checks=False)
    for number in range(30_000):
        sim.scheduler.add(make_request(number, [1], 1))
    sim.scheduler.add(make_request(30_000, [1], 1, priority=-1))
    sim.scheduler.add(make_request(30_001, [1], 1, priority=-1))
    waiting = sim.scheduler.roster.waiting
    assert [waiting[0].id, waiting[1].id, waiting[2].id, waiting[-1].id] == [30_000, 30_001, 0, 29_999]


any_workload = given(
    draw=st.randoms(use_true_random=False),
    policy=st.integers(0, len(POLICIES) - 1),
    more=st.integers(0, len(MORE_POLICIES) - 1),
)


@any_workload
@settings(max_examples=80, deadline=None)
def test_equals_are_served_as_they_came(draw, policy, more):
    """Fairness under every policy: of requests with the same priority, who came first gets its first row first."""
    sim = run(random_workload(draw, policy, more))
    priorities = {arrive.request: arrive.priority for arrive in sim.of(Arrive)}
    for priority in set(priorities.values()):
        first = [a.request for a in sim.of(Admit) if not a.resumed and priorities[a.request] == priority]
        assert first == sorted(first)


@any_workload
@settings(max_examples=80, deadline=None)
def test_nobody_is_overtaken_by_more_than_the_lead_is_worth(draw, policy, more):
    """The promise of aging and deadlines, counted from the records alone: who gets a first row before an earlier one
    came within the time that its lead in priority is worth."""
    work = random_workload(draw, policy, more)
    config = work.config
    worth_ns = MS if config.queue_order == "deadline" else round(config.aging_s * 1e9)
    sim = run(work)
    if not worth_ns:
        return
    requests = {request.id: request for request in sim.requests}
    waiting = set()
    for event in sim.events:
        if isinstance(event, Arrive) and event.request not in sim.refused:
            waiting.add(event.request)
        elif isinstance(event, Leave) and event.row == -1:
            waiting.discard(event.request)
        elif isinstance(event, Admit) and not event.resumed:
            waiting.discard(event.request)
            one = requests[event.request]
            for other in (requests[i] for i in waiting):
                lead = other.priority - one.priority
                assert one.arrived_ns - other.arrived_ns <= lead * worth_ns


@any_workload
@settings(max_examples=80, deadline=None)
def test_every_step_gets_somewhere(draw, policy, more):
    """Liveness under every policy: requests that preempt each other must not go round in circles. Between two sampled
    tokens nobody is computed or preempted twice."""
    sim = run(random_workload(draw, policy, more))
    once = sum(request.kv_limit for request in sim.requests)
    work, victims, steps = 0, [], iter(sim.steps)
    for event in sim.events:
        if isinstance(event, Leave) and event.cause == Cause.PREEMPT:
            victims.append(event.request)
            assert len(victims) == len(set(victims))
        elif isinstance(event, Step):
            step = next(steps)
            work += step.total_tokens
            assert work <= once
            if step.samples.any():
                work, victims = 0, []


@pytest.mark.parametrize(
    ("field", "value"),
    [("preemption", "newest"), ("queue_order", "fifo"), ("eviction", "random"), ("aging_s", -1.0)],
)
def test_bad_settings_are_named(field: str, value: object):
    """A policy that does not exist must be one clear line before anything starts."""
    with pytest.raises(InvalidRequest, match=field):
        replace(SchedulingConfig(), **{field: value}).validate()
