"""wait-for-prefix: nobody computes what another request computes right now, and nobody waits in vain."""

from engine.config import SchedulingConfig
from engine.trace.events import Admit, Cause, Reason, Step
from tests.scheduling.simulation import Simulation, make_request
from tests.scheduling.workloads import check_answers


def simulation(**config: object) -> Simulation:
    """Blocks of four, and the policy."""
    limits = {"block_size": 4, "max_model_len": 64, "wait_for_prefix": True}
    return Simulation(SchedulingConfig(**limits | config))


def hits(sim: Simulation) -> list[int]:
    return [admit.hit_tokens for admit in sim.of(Admit)]


def test_twins_compute_their_prefix_once():
    """Without the policy both compute all 9 tokens; with it the second waits one step and hits two blocks."""
    for wait, expected in ((False, [0, 0]), (True, [0, 8])):
        sim = simulation(wait_for_prefix=wait)
        for number in range(2):
            sim.submit(make_request(number, range(9), 3))
        sim.run()
        check_answers(sim)
        assert hits(sim) == expected
        head = sim.of(Step)[0]
        reason = (Reason.WAITING_FOR_PREFIX, 8, 0) if wait else (Reason.NONE, 0, 0)
        assert (Reason(head.head_reason), head.head_need, head.head_have) == reason
        assert len(sim.of(Step)) == (4 if wait else 3)


def test_it_waits_for_the_shared_part_only():
    """The first prompt takes five steps. The second shares its first two blocks, which two steps bring."""
    sim = simulation(token_budget=8, max_num_seqs=8)
    sim.submit(make_request(0, range(40), 1))
    sim.submit(make_request(1, [*range(8), 90, 91], 1))
    sim.run()
    check_answers(sim)
    reasons = [Reason(step.head_reason) for step in sim.of(Step)]
    assert reasons[0] == Reason.WAITING_FOR_PREFIX and Reason.WAITING_FOR_PREFIX not in reasons[1:]
    assert hits(sim) == [0, 8]


def test_an_end_or_a_reset_ends_the_wait():
    """What is awaited may never come: its request is aborted, or the cache is dropped while its tail is computed."""
    for disturb in ("abort", "reset"):
        sim = simulation(token_budget=8, max_num_seqs=8)
        first, second = make_request(0, range(40), 1), make_request(1, range(40), 1)
        sim.submit(first)
        sim.submit(second)
        sim.round()
        sim.round()
        assert sim.of(Step)[-1].head_reason == Reason.WAITING_FOR_PREFIX
        if disturb == "abort":
            sim.finish(first, Cause.ABORT)
        else:
            sim.reset_prefix_cache()
        sim.round()
        assert sim.of(Step)[-1].head_reason != Reason.WAITING_FOR_PREFIX
        sim.run()
        check_answers(sim)


def test_groups_do_not_wait():
    """A group that waited for its first member would run without the others."""
    sim = simulation(batching="static")
    for number in range(3):
        sim.submit(make_request(number, range(9), 3))
    sim.run()
    check_answers(sim)
    assert len(sim.of(Step)[0].chunk_rows) == 3
