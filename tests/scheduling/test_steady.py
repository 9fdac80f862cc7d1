"""The fast twin of pure decode against the readable path that specifies it."""

import numpy as np
import pytest

from engine.config import SchedulingConfig
from engine.scheduling.steady import SteadyDecode
from engine.step import StepInput
from tests.scheduling.simulation import Simulation, make_request
from tests.scheduling.workloads import run, seeded_workload


def same(one: StepInput, other: StepInput) -> bool:
    names = ("rows", "epochs", "num_tokens", "starts", "samples", "new_block_rows", "new_block_ids")
    arrays = all(np.array_equal(getattr(one, name), getattr(other, name)) for name in names)
    return arrays and (one.step, one.bucket, one.admits) == (other.step, other.bucket, other.admits)


class Count:
    """How often the fast twin launched and collected."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.launched = self.collected = 0
        launch, collect = SteadyDecode.launch, SteadyDecode.collect

        def counted_launch(steady, *arguments):
            self.launched += 1
            return launch(steady, *arguments)

        def counted_collect(steady, *arguments):
            found = collect(steady, *arguments)
            self.collected += found is not None
            return found

        monkeypatch.setattr(SteadyDecode, "launch", counted_launch)
        monkeypatch.setattr(SteadyDecode, "collect", counted_collect)


def test_both_paths_agree(monkeypatch):
    """Every record and every step of random workloads are the same with and without the fast twin. Guards a counter, a
    block or an end of an answer that only one of them sees; and the test itself against never taking the fast path."""
    count = Count(monkeypatch)
    fast = [run(seeded_workload(seed)) for seed in range(400)]
    assert count.launched > 1000 and count.collected > 500
    monkeypatch.setattr(SteadyDecode, "after", classmethod(lambda cls, *arguments: None))
    launched = count.launched
    for seed, one in enumerate(fast):
        other = run(seeded_workload(seed))
        assert one.events == other.events, f"seeded_workload({seed})"
        assert len(one.steps) == len(other.steps) and all(map(same, one.steps, other.steps))
    assert count.launched == launched


@pytest.mark.parametrize("batching", ("in-flight", "static"))
@pytest.mark.parametrize("in_flight", (0, 1, 2))
def test_long_decodes_take_the_fast_path(monkeypatch, in_flight, batching):
    """Eight rows of 60 tokens over blocks of 4: all but the first, the last and a few steps between are fast."""
    count = Count(monkeypatch)
    sim = Simulation(
        SchedulingConfig(
            pool_blocks=200,
            block_size=4,
            max_num_seqs=8,
            token_budget=64,
            steps_in_flight=in_flight,
            batching=batching,
        )
    )
    for number in range(8):
        sim.submit(make_request(number, [2] * (3 + number), 60))
    sim.run()
    assert count.launched >= 55 and count.collected >= 50
    assert [len(request.output_ids) for request in sim.requests] == [60] * 8


def test_padded_rows_take_the_fast_path_too(monkeypatch):
    """One answer of 60 tokens beside seven of 5. Guards the fairness of the race: on a fast device a static batch would
    be slower than its kernels if padded rows alone went the long way on the host."""
    count = Count(monkeypatch)
    sim = Simulation(
        SchedulingConfig(pool_blocks=200, block_size=4, max_num_seqs=8, token_budget=64, batching="static")
    )
    for number in range(8):
        sim.submit(make_request(number, [2] * 3, 60 if number == 0 else 5))
    sim.run()
    assert count.launched >= 50 and count.collected >= 45
    assert [len(request.output_ids) for request in sim.requests] == [60] + [5] * 7
