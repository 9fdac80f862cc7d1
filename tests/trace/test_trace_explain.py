"""Why a request waits, in words: the reasons that a policy of the queue, of preemption or of the prefix cache gives."""

from engine.config import SchedulingConfig
from engine.trace.explain import explain
from engine.trace.forecast import next_free
from tests.scheduling.simulation import Simulation, make_request


def waiting(config: SchedulingConfig, *requests: tuple[range, int]) -> Simulation:
    """After one step, requests of (prompt, priority) in order of arrival, 1 ms apart."""
    sim = Simulation(config)
    for number, (prompt, priority) in enumerate(requests):
        sim.submit(make_request(number, prompt, 8, priority=priority))
        sim.now_ns += 1_000_000
    sim.round()
    return sim


def test_overtaken():
    """Who stands behind a later arrival must be told so, or the queue looks wrong."""
    sim = waiting(SchedulingConfig(max_num_seqs=1), (range(4), 1), (range(4), 0), (range(4), 0))
    assert explain(sim.state, 0) == "Not admitted: 1 ahead of it in the queue, C is first; 1 of them came later."
    assert explain(sim.state, 2) == "Not admitted: needs a row, all 1 are taken."


def test_room_for_the_more_important():
    """The numbers count one block for each running request that comes first, and the forecast names who frees some."""
    config = SchedulingConfig(pool_blocks=4, block_size=4, preemption="lowest-priority")
    sim = waiting(config, (range(4), 0), (range(10, 14), 0), (range(20, 21), 1))
    kept = "with one for the next step of each running request that comes before it"
    assert explain(sim.state, 2) == f"Not admitted: needs 3 blocks {kept}, 2 are available."
    sim.round()
    assert next_free(sim.state, 2).startswith("Next change expected when A finishes: ")


def test_a_prefix_that_is_being_computed():
    """Who computes it, and how much of it."""
    sim = waiting(SchedulingConfig(block_size=4, wait_for_prefix=True), (range(9), 0), (range(9), 0))
    assert explain(sim.state, 1) == "Not admitted: A is computing 8 tokens that it shares."
