"""Entering a run anywhere: forward, back, after dropping, from several threads."""

import gc
import json
import random
import threading
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.trace import timeline as module
from engine.trace.events import KV, Apply, Cause, Leave, Op, Record, Step, Time
from engine.trace.frame import frame
from engine.trace.state import State
from engine.trace.timeline import Timeline, split_runs
from tests.trace.trace_runs import Played, Scenario
from tests.trace.trace_script import Script, admit, arrive, prefill, step


def facts(state: State) -> tuple:
    """All that a page can show of a state, as comparable values."""
    requests = {i: (v, v.token_ids[: v.num_tokens]) for i, v in state.requests.items()}
    requests = {
        i: [getattr(v, name) for name in v.__slots__ if name != "token_ids"] + t for i, (v, t) in requests.items()
    }
    places = (state.seq, state.t_ns, state.paused, state.head, state.totals, state.step, state.pending)
    return (
        state.snapshot(),
        requests,
        places,
        list(state.history),
        list(state.events),
        list(state.ended),
        state.in_flight,
    )


@pytest.fixture
def small_spacing(monkeypatch):
    """Snapshots and near states close together, so that short runs use them."""
    monkeypatch.setattr(module, "SNAPSHOT_STEPS", 8)
    monkeypatch.setattr(module, "NEAR_RECORDS", 4)
    monkeypatch.setattr(module, "NEAR_STATES", 6)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_state_at_equals_a_fold_from_scratch_whatever_was_looked_at_before(seed):
    """Acceptance test 3: stepping back and forth, jumping, snapshots and copies must not leak into each other."""
    saved = module.SNAPSHOT_STEPS, module.NEAR_RECORDS, module.NEAR_STATES
    module.SNAPSHOT_STEPS, module.NEAR_RECORDS, module.NEAR_STATES = 8, 4, 6
    try:
        records = Played(Scenario.draw(seed), seed=seed).records
        [run] = split_runs(records)
        scratch, expected = State(), {}
        for record in records:
            scratch.apply(record)
            expected[record.seq] = facts(scratch.copy())
        rng, seq = random.Random(seed), 0
        for _ in range(60):
            seq = rng.choice((rng.randint(0, run.last_seq), max(0, seq - 1), min(run.last_seq, seq + 1)))
            assert facts(run.state_at(seq)) == expected[seq]
    finally:
        module.SNAPSHOT_STEPS, module.NEAR_RECORDS, module.NEAR_STATES = saved


def steady(steps: int, timeline: Timeline) -> Timeline:
    """One row that decodes for ever; its answer is longer than any block table, so blocks are not modelled."""
    script = Script().at(0, arrive(0, max_tokens=10**6), admit(0, 0), prefill(0, 3, [1]), Apply(1, [0], [4]))
    for number in range(2, steps + 1):
        script.at(number / 1e3, step(joined=[0] if number == 2 else []), Apply(number, [0], [number % 50]))
    for record in script.records:
        timeline.append(record)
    return timeline


def test_the_next_and_the_last_step_are_near(monkeypatch):
    """Stepping must not fold the run again: at most one spacing of records either way, also in a long run."""
    run = steady(3_000, Timeline())
    run.state_at(run.seq_of_step(2_000))
    applied = []
    monkeypatch.setattr(
        State, "apply", lambda state, record, real=State.apply: (applied.append(1), real(state, record))
    )
    for number in range(2_000, 1_900, -1):
        applied.clear()
        assert run.state_at(run.seq_of_step(number)).step.number == number
        assert len(applied) <= module.NEAR_RECORDS
    applied.clear()
    run.state_at(run.seq_of_step(100))
    run.state_at(run.seq_of_step(2_900))
    assert len(applied) < 2.5 * 2 * module.SNAPSHOT_STEPS


def test_a_run_that_nobody_looked_at_opens_at_once(monkeypatch):
    """Snapshots are made while records come in: the first look folds at most one spacing, however long the run."""
    run = Timeline()
    for record in steady(3_000, Timeline()):
        run.append(record)
        run.keep_up()
    applied = []
    monkeypatch.setattr(
        State, "apply", lambda state, record, real=State.apply: (applied.append(1), real(state, record))
    )
    assert run.state_at(run.last_seq).step.number == 3_000
    assert len(applied) <= 2 * module.SNAPSHOT_STEPS


def test_seq_of_step_includes_results_and_the_leaves_they_cause():
    """Step n on screen shows what step n did; what was decided for step n + 1 comes with step n + 1."""
    script = Script().at(0, arrive(0), arrive(1), admit(0, 0), prefill(0, 3, [1]))
    script.at(1, Apply(1, [0], [9]), Leave(0, 0, 1, Cause.EOS), Time(1, gpu_us=5), admit(1, 0), prefill(0, 3, [2]))
    run = script.timeline
    first, second = run.state_at(run.seq_of_step(1)), run.state_at(run.seq_of_step(2))
    assert (first.step.number, first.totals.finished, first.running) == (1, 1, [])
    assert (second.step.number, second.running) == (2, [1])
    assert first.times.gpu_us == 5
    assert run.seq_of_step(0) == run.first_seq and run.seq_of_step(99) == run.last_seq
    assert [run.step_of_seq(run.seq_of_step(number)) for number in (1, 2)] == [1, 2]


def test_old_steps_are_dropped_and_the_rest_stays_right(small_spacing):
    """A live run is bounded: it says how much it dropped, and what it kept folds as before."""
    whole, bounded = steady(200, Timeline()), steady(200, Timeline(max_steps=50))
    assert bounded.dropped_steps > 0 and bounded.step_count < 50 + 8
    assert bounded.first_step == bounded.dropped_steps + 1
    assert len(bounded) < len(whole)
    for number in (bounded.first_step, bounded.first_step + 20, 200):
        seq = bounded.seq_of_step(number)
        assert seq == whole.seq_of_step(number)
        assert facts(bounded.state_at(seq)) == facts(whole.state_at(seq))
    assert bounded.index.tokens_per_s(bounded.state_at(bounded.last_seq).t_ns, 0.1) == pytest.approx(1_000, rel=0.05)


def test_H_05_memory_and_frames_stay_flat_while_a_run_goes_on(small_spacing):
    """H-05: a live view that is looked at for ever, 10,000 steps long, must not grow with the run."""
    run, memory, frames = Timeline(max_steps=300), [], []
    for record in (
        Script().at(0, arrive(0, max_tokens=10**6), admit(0, 0), prefill(0, 3, [1]), Apply(1, [0], [4])).records
    ):
        run.append(record)
    tracemalloc.start()
    try:
        for number in range(2, 10_001):
            evict = KV(Op.EVICT, [8])
            for event in (evict, step(joined=[0] if number == 2 else []), Apply(number)):
                run.append(Record(run.last_seq + 1, number * 10**6, number - (event is evict), event))
            if number % 100 == 0:
                shown = frame(run, run.last_seq, 0)
            if number in (1_000, 10_000):
                gc.collect()  # what waits for the collector is not kept
                memory.append(tracemalloc.get_traced_memory()[0])
                frames.append(len(json.dumps(shown)))
    finally:
        tracemalloc.stop()
    assert run.step_count <= 300 + 8
    assert memory[1] < 1.2 * memory[0] and frames[1] < 1.2 * frames[0]


def test_a_run_record_begins_a_new_timeline():
    """Runs must not be folded into each other; a hole in the seqs is counted."""
    script = Script().at(0, arrive(0))
    records = [*script.records, *(r._replace(seq=r.seq + 10) for r in script.records)]
    first, second = split_runs(records)
    assert (first.last_seq, second.first_seq) == (1, 10)
    first.append(records[-1])
    assert (first.holes, second.holes) == (9, 0)


def test_a_damaged_run_says_so_instead_of_showing_a_wrong_state():
    """A failing recorder left a hole (no ADMIT): the page gets one line with the numbers, not a KeyError."""
    run = Timeline()
    for record in Script().at(0, arrive(0), admit(0, 0), prefill(0, 3, [1])).records:
        if record.seq != 2:
            run.append(record)
    assert run.state_at(1).waiting == [0]
    with pytest.raises(module.TraceDamaged, match=r"record 3 \(STEP\) does not follow .* missing: 1$"):
        run.state_at(3)


def test_tabs_in_several_threads_share_one_timeline():
    """Readers jump around while the run grows: one lock, and no state that another thread is still folding."""
    records = Played(Scenario.draw(11), seed=11).records
    run, errors = Timeline(), []
    expected = [state.step.number for state, _ in split_runs(records)[0].walk()][1:]

    def look(seed: int) -> None:
        rng = random.Random(seed)
        for _ in range(300):
            seq = rng.randint(0, max(0, run.last_seq - 1))
            state = run.state_at(seq)
            if run.last_seq > 0 and state.step.number != expected[state.seq]:
                errors.append(seq)

    run.append(records[0])
    threads = [threading.Thread(target=look, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    for record in records[1:]:
        run.append(record)
    for thread in threads:
        thread.join()
    assert not errors
    assert sum(isinstance(record.event, Step) for record in run) == run.step_count
