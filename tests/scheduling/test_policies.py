"""What each policy decides, on examples small enough to count by hand."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.config import SchedulingConfig
from engine.request import Request
from engine.scheduling.microbatch import MicroBatchScheduler
from engine.trace.events import Admit, Cause, Leave, Reason, Step
from tests.scheduling.simulation import Simulation, make_request
from tests.scheduling.workloads import MORE_POLICIES, POLICIES, check_answers, random_workload, run


def simulate(requests: list[Request], **config: object) -> Simulation:
    """All requests at once, to the end, on a pool without pressure unless ``config`` says so."""
    limits = {"pool_blocks": 64, "block_size": 4, "max_num_seqs": 4, "token_budget": 64, "max_model_len": 64}
    sim = Simulation(SchedulingConfig(**limits | config))
    for request in requests:
        sim.submit(request)
    sim.run()
    check_answers(sim)
    return sim


def group(*max_tokens: int) -> list[Request]:
    """Requests with prompts of four tokens, all different."""
    return [make_request(i, range(10 * i, 10 * i + 4), answer) for i, answer in enumerate(max_tokens)]


def rows_per_step(sim: Simulation) -> list[int]:
    """How many rows computed in each step."""
    return [len(step.rows) for step in sim.steps]


class TestBatching:
    """Three answers of 2, 4 and 6 tokens and a fourth request of 2, on three rows."""

    def test_in_flight_fills_the_free_row(self):
        """A freed row must be taken in the very next step."""
        sim = simulate(group(2, 4, 6, 2), max_num_seqs=3)
        assert rows_per_step(sim) == [3, 3, 3, 3, 1, 1]
        assert [admit.row for admit in sim.of(Admit)] == [0, 1, 2, 0]

    def test_static_shrinking_leaves_it_empty(self):
        """Rows leave at once, but nobody joins before the group is done."""
        sim = simulate(group(2, 4, 6, 2), max_num_seqs=3, batching="static-shrinking")
        assert rows_per_step(sim) == [3, 3, 2, 2, 1, 1, 1, 1]

    def test_static_pads_to_the_longest_answer(self):
        """Ended rows go on computing, keep their blocks, and are given back together with the last answer."""
        sim = simulate(group(2, 4, 6, 2), max_num_seqs=3, batching="static")
        assert rows_per_step(sim) == [3, 3, 3, 3, 3, 3, 1, 1]
        leaves = [(leave.request, Cause(leave.cause).name, leave.keeps_row) for leave in sim.of(Leave)]
        assert leaves == [
            (0, "LENGTH", 1),
            (1, "LENGTH", 1),
            (2, "LENGTH", 0),
            (0, "GROUP_END", 0),
            (1, "GROUP_END", 0),
            (3, "LENGTH", 0),
        ]

    def test_static_prefills_the_whole_group_first(self):
        """With a small budget the prompts take several steps, and no row decodes before the last one is done."""
        sim = simulate(group(3, 3, 3), token_budget=5, batching="static")
        chunks = [step.chunk_tokens for step in sim.of(Step)]
        assert chunks == [[4, 1], [3, 2], [2], [], []]
        assert rows_per_step(sim)[-2:] == [3, 3]

    def test_static_group_is_as_large_as_its_reservation(self):
        """Every member is reserved its prompt and the group's longest answer: 3 x ceil((4 + 8 - 1) / 4) blocks fit
        into 9, a fourth does not, although its prompt would."""
        sim = simulate(group(8, 1, 1, 1), pool_blocks=9, batching="static")
        first = sim.of(Step)[0]
        assert len(first.chunk_rows) == 3
        assert (first.head, Reason(first.head_reason)) == (3, Reason.RESERVED_FOR_RUNNING)
        assert (first.head_need, first.head_have) == (3, 0)

    def test_longer_newcomer_makes_the_whole_group_longer(self):
        """A long answer behind short ones must be counted for all of them."""
        sim = simulate(group(1, 1, 8), pool_blocks=8, batching="static")
        assert len(sim.of(Step)[0].chunk_rows) == 2

    def test_aborted_row_of_a_group_stays_idle(self):
        """An abort gives row and blocks back at once, but nobody takes the row before the group is done."""
        sim = Simulation(SchedulingConfig(pool_blocks=64, block_size=4, max_num_seqs=2, batching="static"))
        requests = group(6, 6, 2)
        for request in requests:
            sim.submit(request)
        sim.round()
        sim.finish(requests[0], Cause.ABORT)
        sim.run()
        check_answers(sim)
        assert rows_per_step(sim) == [2, 1, 1, 1, 1, 1, 1, 1]

    def test_dynamic_releases_a_preferred_size(self):
        """Three wait and 2 is preferred: two enter before the window ends, the third when it has ended."""
        sim = simulate(group(2, 2, 2), batching="dynamic", window_ms=10, preferred_sizes=(2, 8))
        assert rows_per_step(sim) == [2, 2, 1, 1]
        assert sim.now_ns >= 10_000_000

    def test_dynamic_names_the_end_of_the_window(self):
        """With nothing running the loop must know how long to sleep, or it spins or sleeps for ever."""
        sim = Simulation(SchedulingConfig(batching="dynamic", window_ms=10, preferred_sizes=()))
        sim.submit(make_request(0, [1], 1))
        assert sim.scheduler.schedule(9_999_999) is None
        assert sim.scheduler.next_wake_ns(9_999_999) == 10_000_000
        assert sim.scheduler.schedule(10_000_000) is not None


class TestReasons:
    """The head of the queue is told why it waits, with numbers."""

    def head_of_first_step(self, requests: list[Request], **config: object) -> tuple[Reason, int, int]:
        step = simulate(requests, **config).of(Step)[0]
        assert step.head == 1
        return Reason(step.head_reason), step.head_need, step.head_have

    def test_no_free_blocks(self):
        """3 blocks for the first, 2 are left, the second needs 3."""
        requests = [make_request(0, range(9), 2), make_request(1, range(20, 29), 2)]
        assert self.head_of_first_step(requests, pool_blocks=5) == (Reason.NO_FREE_BLOCKS, 3, 2)

    def test_watermark(self):
        """It would fit, but not with the share kept free while something runs."""
        requests = [make_request(0, range(9), 2), make_request(1, range(20, 29), 2)]
        assert self.head_of_first_step(requests, pool_blocks=6, watermark=0.1) == (Reason.WATERMARK, 4, 3)

    def test_watermark_is_void_when_nothing_runs(self):
        """A request that needs the whole pool must not wait for ever."""
        simulate([make_request(0, range(16), 1)], pool_blocks=4, watermark=0.5)

    def test_reserved_for_running(self):
        """The first may grow to 4 of 6 blocks although it holds 1; the second needs 3 at most."""
        requests = [make_request(0, range(4), 13), make_request(1, range(20, 24), 9)]
        numbers = self.head_of_first_step(requests, pool_blocks=6, capacity="guaranteed-no-evict")
        assert numbers == (Reason.RESERVED_FOR_RUNNING, 3, 2)

    def test_rows(self):
        assert self.head_of_first_step(group(2, 2), max_num_seqs=1) == (Reason.MAX_NUM_SEQS, 2, 1)

    def test_token_budget(self):
        assert self.head_of_first_step(group(2, 2), token_budget=4) == (Reason.TOKEN_BUDGET, 1, 0)

    def test_hit_blocks_that_nobody_holds_count(self):
        """A hit on a reclaimable block takes it from the pool as a new block does: forgetting that overcommits."""
        sim = Simulation(SchedulingConfig(pool_blocks=4, block_size=4, max_num_seqs=4))
        first, holder, again = (
            make_request(i, prompt, 1) for i, prompt in enumerate((range(8), range(20, 28), range(9)))
        )
        sim.submit(first)
        sim.run()
        kv = sim.scheduler.kv
        hits = kv.find_hits(again)
        assert len(hits) == 2 and kv.cost(3, hits) == 3
        kv.open_table(holder, hits)
        assert kv.cost(3, hits) == 1


class TestTokens:
    """The token budget is divided as the chunking policy says."""

    def chunks(self, remaining: list[int], decodes: int, **config: object) -> list[int]:
        limits = {"max_num_seqs": 4, "token_budget": 16} | config
        return MicroBatchScheduler(SchedulingConfig(**limits)).chunks(remaining, decodes)

    def test_first_come_first_served(self):
        assert self.chunks([10, 10, 10], decodes=2) == [10, 4, 0]

    def test_equal_progress(self):
        """What a short prompt leaves goes to the others."""
        assert self.chunks([10, 2, 10], decodes=2, chunking="equal") == [6, 2, 6]

    def test_whole_prompts_skip_a_step_that_is_too_small(self):
        assert self.chunks([10, 8, 3], decodes=2, chunked_prefill=False) == [10, 0, 3]

    def test_chunk_is_cut_to_a_graph_bucket(self):
        """3 decodes and a chunk of 13 would make 16, no bucket; a chunk that ends its prompt is left whole."""
        assert self.chunks([40], decodes=3, graph_buckets=(4, 8, 12)) == [9]
        assert self.chunks([11], decodes=3, graph_buckets=(4, 8, 12)) == [11]

    @given(
        remaining=st.lists(st.integers(1, 40), max_size=6),
        decodes=st.integers(0, 2),
        chunking=st.sampled_from(["fcfs", "equal"]),
        whole=st.booleans(),
        buckets=st.sampled_from([(), (1, 2, 4, 8), (6,)]),
    )
    @settings(max_examples=200, deadline=None)
    def test_any_division(self, remaining, decodes, chunking, whole, buckets):
        """Never above the budget, never more than a prompt lacks, and never nothing at all while prompts wait."""
        config = {"chunking": chunking, "chunked_prefill": not whole, "graph_buckets": buckets, "token_budget": 8}
        sizes = self.chunks(remaining, decodes, **config)
        assert sum(sizes) + decodes <= 8
        assert all(0 <= size <= lacking for size, lacking in zip(sizes, remaining))
        if remaining and not whole:
            assert sizes[0] > 0 or chunking == "equal"
        if whole:
            assert all(size in (0, lacking) for size, lacking in zip(sizes, remaining) if lacking <= 8)


class TestEnds:
    """What ends an answer, and how far the scheduler launches ahead."""

    @pytest.mark.parametrize("depth", [0, 1, 2])
    def test_length_wastes_nothing(self, depth: int):
        """Samples in flight count towards max_tokens: no row-step is launched that only a length can waste."""
        sim = simulate(group(1, 5, 9), steps_in_flight=depth)
        assert all(leave.late == 0 for leave in sim.of(Leave))
        assert sum(int(step.samples.sum()) for step in sim.steps) == 15

    def test_late_stop_is_dropped_and_counted(self):
        """With one step in flight the end of an answer is seen one step late: that row-step is dropped."""
        sim = simulate([make_request(0, range(4), 20, forced_output_length=3)], steps_in_flight=1)
        (leave,) = sim.of(Leave)
        assert (Cause(leave.cause), leave.late) == (Cause.LENGTH, 1)
        assert sum(int(step.samples.sum()) for step in sim.steps) == 4
        assert sim.requests[0].num_output_tokens == 3

    def test_forced_length_is_invisible_to_planning(self):
        """The reservation must follow max_tokens, or the baselines of a race would profit from the forced length."""
        sim = Simulation(SchedulingConfig(pool_blocks=8, block_size=4, max_num_seqs=4, capacity="guaranteed-no-evict"))
        for number in range(2):
            sim.submit(make_request(number, range(10 * number, 10 * number + 4), 20, forced_output_length=2))
        sim.round()
        assert len(sim.scheduler.roster.running) == 1

    def test_min_tokens_holds_stop_ids_back(self):
        """Counted from the first generated token, for every ending id alike."""
        every_id = tuple(range(10))
        sim = simulate([make_request(0, [1, 2], 20, stop_token_ids=every_id, ignore_eos=False, min_tokens=5)])
        assert sim.requests[0].num_output_tokens == 6

    def test_row_without_a_block_waits_for_results(self):
        """With a step in flight nobody is preempted: the row sits out, and the head learns that results are due."""
        requests = [make_request(0, range(7), 8), make_request(1, range(20, 27), 8)]
        sim = simulate(requests, pool_blocks=5, steps_in_flight=1)
        steps = sim.of(Step)
        assert any(step.sat_out for step in steps)
        assert sum(request.num_preemptions for request in requests) > 0

    def test_queue_order(self):
        """By priority, then arrival; a preempted request is overtaken by nobody."""
        sim = Simulation(SchedulingConfig())
        for number, priority in enumerate((0, 0, -1, 5, 0)):
            sim.submit(make_request(number, [1], 1, priority=priority))
        assert sim.scheduler.snapshot()["waiting"] == [2, 0, 1, 4, 3]


@given(
    draw=st.randoms(use_true_random=False),
    policy=st.integers(0, len(POLICIES) - 1),
    more=st.integers(0, len(MORE_POLICIES) - 1),
)
@settings(max_examples=150, deadline=None)
def test_any_workload(draw, policy, more):
    """The oracle's workloads once more, drawn by hypothesis: when one fails, it shrinks it."""
    run(random_workload(draw, policy, more))
