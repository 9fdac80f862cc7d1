"""Three allocators on the same arrivals: cases counted by hand, and what must add up whatever comes."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.trace.allocator_replay import Served, compare, demands, expected_internal, serve, step_seconds
from engine.trace.allocators import Allocator, ContiguousGrow, Demand, Paged, ReserveMax, Slots
from tests.trace.trace_runs import Played, Scenario
from tests.trace.trace_script import one_answer


def asked(*sizes: tuple[int, int], arrived: int = 1) -> list[Demand]:
    """Requests of (prompt, output) tokens that come together."""
    return [Demand(i, arrived, prompt, output) for i, (prompt, output) in enumerate(sizes)]


def test_one_request_in_each():
    """A prompt of 3 and 3 tokens of answer need 5 slots in the end. A reservation of 8 wastes 3 at once, doubling
    goes to 6, blocks of 4 go from one to two."""
    one = asked((3, 3))
    assert serve(ReserveMax(10, 8), one).slots == [Slots(3, 2, 3, 0, 2), Slots(4, 1, 3, 0, 2), Slots(5, 0, 3, 0, 2)]
    assert serve(ContiguousGrow(10), one).slots == [Slots(3, 0, 0, 0, 7), Slots(4, 1, 1, 0, 4), Slots(5, 0, 1, 0, 4)]
    assert serve(Paged(12, 4), one).slots == [Slots(3, 0, 1, 0, 8), Slots(4, 0, 0, 0, 8), Slots(5, 0, 3, 0, 4)]


def test_what_fits():
    """Four short requests on 20 slots: two reservations of 8 leave a gap of 4 that nobody can use; the others take all
    four at once."""
    four = asked(*[(3, 2)] * 4)
    reserved = serve(ReserveMax(20, 8), four)
    assert reserved.running == [2, 2, 2, 2] and reserved.waiting == [2, 2, 0, 0]
    assert [slots.external for slots in reserved.slots] == [4, 4, 0, 0]
    assert reserved.waits == {0: 0, 1: 0, 2: 2, 3: 2} and reserved.mean_wait_steps == 1
    assert serve(Paged(20, 4), four).running == [4, 4]
    assert serve(ContiguousGrow(24), four).most_running == 4


def test_gaps_are_external_waste():
    """The first and the third of three extents are given back: 3 + 4 slots are free, but a prompt of 5 fits in none."""
    allocator = ContiguousGrow(10)
    for demand in asked((3, 1), (3, 1), (3, 1)):
        assert allocator.admit(demand, 3)
    allocator.free(0)
    allocator.free(2)
    big = Demand(9, 1, 5, 1)
    assert allocator.gaps() == [(0, 3), (6, 4)]
    assert not allocator.admit(big, 5)
    assert allocator.slots((big, 5)) == Slots(3, 0, 0, 7, 0)
    assert allocator.slots(None) == Slots(3, 0, 0, 0, 7)


def test_growing_moves_or_takes_what_is_behind():
    """The first of two neighbours is full: it moves behind the second while it still holds its old place; without such
    a gap it takes the slots behind it, and without those there is no room."""
    allocator = ContiguousGrow(12)
    for demand in asked((3, 9), (3, 9)):
        allocator.admit(demand, 3)
    assert allocator.grow(0) and allocator.moved == 3 and allocator.gaps() == [(0, 3)]
    assert not allocator.grow(1)
    allocator.free(0)
    assert allocator.grow(1) and allocator.held[1].start == 3 and allocator.held[1].size == 6


def test_the_newest_gives_way():
    """Two requests outgrow three blocks: the second is preempted, and computes its prompt and first tokens again."""
    served = serve(Paged(12, 4), asked((4, 6), (4, 6)))
    assert served.preemptions >= 1 and served.complete
    assert served.waits == {0: 0, 1: 0}
    assert served.running[1] == 1


def test_internal_waste_of_blocks_is_half_a_block():
    """(block_size - 1) / 2 per request, when lengths fall anywhere in a block."""
    for block_size in (16, 64):
        many = [Demand(i, 1, 1 + i % (4 * block_size), 4 * block_size) for i in range(4 * block_size)]
        served = serve(Paged(4096 * block_size, block_size), many)
        assert served.internal_per_request == pytest.approx(expected_internal(block_size), rel=0.02)


ALLOCATORS = [lambda: ReserveMax(48, 24), lambda: ContiguousGrow(48), lambda: Paged(48, 4)]


def check(served: Served) -> None:
    assert all(sum(slots) == served.pool and min(slots) >= 0 for slots in served.slots)
    assert len(served.slots) == len(served.running) == len(served.waiting)


@pytest.mark.parametrize("make", ALLOCATORS, ids=["reserve-max", "contiguous-grow", "paged"])
@given(sizes=st.lists(st.tuples(st.integers(1, 12), st.integers(1, 12), st.integers(1, 30)), min_size=1, max_size=12))
@settings(max_examples=120, deadline=None)
def test_slots_add_up_and_every_request_ends(make, sizes):
    """Guards the accounting (each slot of the pool is exactly one thing), extents that overlap, and requests that
    preempt each other for ever."""
    allocator: Allocator = make()
    served = serve(allocator, [Demand(i, at, prompt, output) for i, (prompt, output, at) in enumerate(sizes)], 2_000)
    check(served)
    assert served.complete and len(served.waits) == len(sizes) and not allocator.held
    assert allocator.slots(None).free == 48
    assert min(served.waits.values()) >= 0


def test_a_recorded_run():
    """The arrivals of real traces, on the pool of the run: what was not answered is left out."""
    for seed in range(20):
        timeline = Played(Scenario.draw(seed), seed=seed).timeline
        found = demands(timeline)
        end = timeline.state_at(timeline.last_seq)
        assert {demand.request for demand in found} == {view.id for view in end.requests.values() if view.num_output}
        for served in compare(timeline):
            check(served)
        assert [served.name for served in compare(timeline, block_size=2)] == [
            "reserve-max",
            "contiguous-grow",
            "paged",
        ]


def test_steps_in_seconds():
    """Three tokens half a second apart."""
    assert step_seconds(one_answer([0.5, 1.0, 1.5]).timeline) == pytest.approx(0.5)
