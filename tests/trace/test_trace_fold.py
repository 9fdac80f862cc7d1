"""The trace is complete or it is wrong: the fold against the scheduler, and what must hold in every state."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.request import RequestState
from engine.trace import keyframe, views
from engine.trace.codec import decode
from engine.trace.events import KV, Admit, Apply, Cause, Leave, Op, Record
from engine.trace.explain import explain
from engine.trace.happenings import event_line
from engine.trace.state import State
from tests.trace.trace_runs import Played, Scenario
from tests.trace.trace_script import Script, admit, arrive, prefill, step

SEEDS = st.integers(0, 2**32 - 1)


class Follower:
    """Folds the records of a playing scenario and compares with the scheduler whenever asked."""

    def __init__(self) -> None:
        self.state = State()
        self.done = 0

    def __call__(self, played: Played) -> None:
        for data in played.sink.data[self.done :]:
            self.state.apply(decode(memoryview(data))[0])
            check_conservation(self.state)
        self.done = len(played.sink.data)
        assert self.state.snapshot() == played.scheduler.snapshot()


def check_conservation(state: State) -> None:
    """Blocks: free + cached + used = pool, references = table entries. Tokens: computed + reused - lost = there."""
    pool = state.pool
    order = list(pool.free_order())
    held = Counter(block for request in state.running for block in state.requests[request].blocks)
    assert sorted(order + list(held)) == list(range(1, pool.size + 1))
    assert len(order) == pool.available
    assert {block: count for block, count in enumerate(pool.refs) if count} == held
    assert sorted(state.rows.values()) == sorted(state.running)
    for view in state.requests.values():
        assert view.num_computed <= view.num_scheduled
        if not view.has_ended:
            assert view.num_scheduled < view.num_tokens + max(1, len(state.in_flight))
            assert view.cached_total + view.computed_total - view.lost_tokens == view.num_scheduled
    totals = state.totals
    rows = totals.decode + totals.prefill + totals.padded + totals.late + totals.idle
    assert rows == state.step.number * state.limit("max_num_seqs")


@settings(max_examples=150, deadline=None)
@given(SEEDS)
def test_the_fold_equals_the_scheduler_after_every_step_and_apply(seed):
    """A decision that is not in the trace, or is folded differently: every policy, pressure, aborts, late stops."""
    Played(Scenario.draw(seed), Follower(), seed)


def test_the_random_runs_reach_every_kind_of_event():
    """Random runs that never preempt, evict, resume, hit or drop a late result would prove nothing."""
    kinds, late, padded, recomputed = set(), 0, 0, 0
    for seed in range(120):
        run = Played(Scenario.draw(seed), seed=seed).timeline
        totals = run.state_at(run.last_seq).totals
        late, padded, recomputed = late + totals.late, padded + totals.padded, recomputed + totals.recomputed_tokens
        kinds |= {happening.kind for state, _ in run.walk() for happening in state.step.happened}
    assert kinds >= {"preempt", "evict", "admit", "resume", "hit", "finish", "abort", "pause", "resume_cmd"}
    assert kinds >= {"swap_out", "swap_in"}
    assert min(late, padded, recomputed) > 0


@settings(max_examples=60, deadline=None)
@given(SEEDS, st.integers(1, 30))
def test_a_keyframe_continues_like_the_whole_trace(seed, checks):
    """A reader that lost everything before a KEYFRAME must see the same state from there on."""
    whole, late = Follower(), State()
    seen = 0

    def follow(played: Played) -> None:
        nonlocal seen
        start = whole.done
        whole(played)
        seen += 1
        if not late.run and seen >= checks and not played.scheduler.steps_in_flight:
            requests = list(played.live_requests())
            event = keyframe.build(
                whole.state.run, played.scheduler.snapshot(), requests, whole.state.decode_rows, False
            )
            late.apply(Record(whole.state.seq, played.now_ns, whole.state.step.number, event))
        elif late.run:
            for data in played.sink.data[start:]:
                late.apply(decode(memoryview(data))[0])
        if late.run:
            assert late.snapshot() == whole.state.snapshot() and late.partial

    Played(Scenario.draw(seed), follow, seed)


def test_content_comes_back_from_the_host():
    """What a swap brings belongs to the ADMIT behind it, takes a block of the free list, and counts as computed only
    when its step is applied; its slot is empty at once. Text and totals say how many blocks came."""
    filled = prefill(0, 8, [1, 2])
    filled.hashed = [1, 2]
    script = Script(pool_blocks=3).at(0, arrive(0, 8), admit(0, 0), filled, Apply(1, [0], [9]), Leave(0, 0, 1, 1))
    script.at(1, KV(Op.SWAP_OUT, [2, 5, 1, 4]), KV(Op.EVICT, [2, 1]), arrive(1, 9))
    assert script.timeline.state_at(99).host == {5: (0, 1), 4: (0, 0)}
    rest = prefill(0, 1, [1])
    rest.chunk_starts = [8]
    script.at(2, KV(Op.SWAP_IN, [4, 3, 5, 2]), Admit(1, 0, 0, 0, 8, [3, 2]), rest)
    state = script.timeline.state_at(99)
    assert (state.host, state.pool.available, state.totals.swapped_out, state.totals.swapped_in) == ({}, 0, 2, 2)
    assert (state.requests[1].num_computed, state.requests[1].num_scheduled) == (0, 9)
    texts = [event_line(state, happening)["text"] for happening in state.step.happened]
    assert "copied 2 evicted blocks to the host" in texts
    assert "B takes 2 blocks of its 2 hits back from the host" in texts
    assert explain(state, 1).endswith("2 blocks came from the host.")
    script.at(3, Apply(2, [0], [9]))
    assert script.timeline.state_at(99).requests[1].num_computed == 9


def test_state_numbers_are_those_of_requests():
    """engine/trace may not import engine.request, so it repeats the numbers."""
    assert [name.upper() for name in views.STATE_NAMES] == [state.name for state in RequestState]
    assert list(range(6)) == [int(state) for state in RequestState]


def test_a_preempted_request_stands_in_front_of_its_equals():
    """Only a more important request may come before it, however late its equals came to the queue."""
    script = Script(pool_blocks=2).at(0, arrive(0), admit(0, 0), prefill(0, 3, [1]), Apply(1, [0], [9]))
    script.at(1, Leave(0, 0, 1, Cause.PREEMPT, lost_tokens=3), arrive(1, priority=5), arrive(2), arrive(3, priority=-1))
    assert script.timeline.state_at(99).waiting == [3, 0, 2, 1]


def test_a_released_table_goes_back_tail_first_and_shared_blocks_stay():
    """The free list is the LRU list: the start of a prompt is the most likely to be reused, so it must go last."""
    script = Script().at(0, arrive(0, 12), admit(0, 0), prefill(0, 12, [1, 2, 3]), Apply(1, [0], [9]))
    script.at(1, Leave(0, 0, 1, Cause.LENGTH))
    assert list(script.timeline.state_at(99).pool.free_order()) == [4, 5, 6, 7, 8, 3, 2, 1]


def test_a_stale_result_is_dropped_and_counted_late():
    """The row-step of an answer that had ended meanwhile is neither useful nor anybody's token."""
    script = Script().at(0, arrive(0), admit(0, 0), prefill(0, 3, [1]), step(joined=[0]), Apply(1, [0], [9]))
    script.at(1, Leave(0, 0, 1, Cause.EOS, late=1), Apply(2, [], [], [0]))
    state = script.timeline.state_at(99)
    assert state.requests[0].output_ids == [9]
    assert (state.totals.prefill, state.totals.decode, state.totals.late) == (1, 0, 1)


@pytest.mark.parametrize(("op", "blocks", "left"), [(Op.EVICT, [1], [2]), (Op.RESET, [], [])])
def test_content_goes_away(op, blocks, left):
    """EVICT takes the content of the named blocks, RESET of all of them, referenced ones included."""
    filled = prefill(0, 8, [1, 2])
    filled.hashed = [1, 2]
    script = Script().at(0, arrive(0, 8), admit(0, 0), filled, KV(op, blocks))
    assert script.timeline.state_at(99).snapshot()["hashed"] == left
