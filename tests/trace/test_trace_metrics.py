"""Latencies, throughput, tables, lanes and self-checks of runs whose numbers are known."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.trace.checks import checks
from engine.trace.events import Apply, Cause, Leave
from engine.trace.lanes import lanes
from engine.trace.metrics import FORMULAS, request_table, step_table, summary
from engine.trace.timeline import Timeline
from tests.trace.trace_runs import Played, Scenario
from tests.trace.trace_script import Script, admit, arrive, one_answer, prefill, step


def test_G_04_the_first_token_is_not_a_gap():
    """G-04: submit at 0.0, tokens at 1.0, 1.1, 1.3: TTFT 1.0, gaps 0.1 and 0.2, TPOT 0.15."""
    found = summary(one_answer([1.0, 1.1, 1.3]).timeline)
    assert found["samples"] == {"ttft": 1, "tpot": 1, "itl": 2, "e2el": 1}
    assert found["mean_ttft_ms"] == pytest.approx(1000)
    assert found["mean_itl_ms"] == pytest.approx(150) and found["std_itl_ms"] == pytest.approx(50)
    assert found["mean_tpot_ms"] == pytest.approx(150)
    assert found["mean_e2el_ms"] == pytest.approx(1300)
    assert found["output_throughput"] == pytest.approx(3 / 1.3)
    assert found["total_token_throughput"] == pytest.approx(6 / 1.3)


def test_one_token_has_no_time_per_output_token():
    """An answer of one token divides by zero, or counts as a TPOT of 0, if nobody thought of it."""
    found = summary(one_answer([2.0]).timeline)
    assert found["samples"]["tpot"] == found["samples"]["itl"] == 0
    assert found["mean_ttft_ms"] == pytest.approx(2000)


def test_several_tokens_in_one_result_are_one_gap():
    """ITL has one sample per result (vLLM): speculation bundles tokens."""
    script = Script().at(0, arrive(0), admit(0, 0), prefill(0, 3, [1]), Apply(1, [0], [9]))
    script.at(1, step(joined=[0]), Apply(2, [0, 0, 0], [1, 2, 3]), Leave(0, 0, 1, Cause.LENGTH))
    found = summary(script.timeline)
    assert found["samples"]["itl"] == 1 and found["total_output_tokens"] == 4
    assert found["mean_tpot_ms"] == pytest.approx(1000 / 3)


def test_aborted_requests_are_not_completed():
    """Throughput counts answers that ended by themselves."""
    script = one_answer([1.0, 2.0])
    script.at(2.0, arrive(1), Leave(1, -1, 1, Cause.ABORT))
    found = summary(script.timeline)
    assert (found["completed"], found["failed"], found["total_output_tokens"]) == (1, 1, 2)


def test_an_empty_run_has_a_summary():
    """A page asks for numbers before the first request."""
    assert summary(Script().timeline)["output_throughput"] == 0
    assert summary(Timeline())["completed"] == 0
    assert request_table(Timeline()) == step_table(Timeline()) == lanes(Timeline()) == []


def test_every_metric_has_its_formula():
    """A number whose definition is not said is not shown (definitions differ between tools)."""
    for key in summary(one_answer([1.0]).timeline):
        name = key.split("_", 1)[1] if key.split("_")[0] in ("mean", "median", "std", "p90", "p99") else key
        assert name in FORMULAS, key


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_tables_and_lanes_add_up_to_the_summary(seed):
    """What is on one part of a page must not contradict another: row-steps, tokens, requests, times."""
    run = Played(Scenario.draw(seed), seed=seed).timeline
    found, requests, steps = summary(run), request_table(run), step_table(run)
    done = [line for line in requests if line["state"] == "finished"]
    assert found["completed"] == len(done)
    assert found["total_output_tokens"] == sum(line["output_tokens"] for line in done)
    for kind in ("decode", "prefill", "padded", "late", "idle"):
        assert found["row_steps"][kind] == sum(line[kind] for line in steps), kind
    assert found["preemptions"] == sum(line["preemptions"] for line in requests)
    assert found["evictions"] >= sum(line["evictions"] for line in steps)
    assert sum(line["output_tokens"] for line in steps) == sum(line["output_tokens"] for line in requests)
    for lane in lanes(run):
        assert all(before[2] == after[1] for before, after in pairwise(lane))
        assert all(begin < end for _, begin, end, _ in lane)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_self_checks_hold_for_every_run(seed):
    """A red chip must mean that something is wrong with the run, not with the check."""
    for check in checks(Played(Scenario.draw(seed), seed=seed).timeline):
        assert check.ok is not False, check


def test_a_self_check_sees_a_hole():
    """A lost record must turn a chip red."""
    whole, holed = one_answer([1.0, 2.0]).timeline, Timeline()
    for record in whole:
        holed.append(record if record.seq < 4 else record._replace(seq=record.seq + 1))
    assert [{check.id: check.ok for check in checks(run)}["complete"] for run in (whole, holed)] == [True, False]


def test_lanes_say_what_a_row_did_and_when():
    """Prefill, decode, padded and idle, joined while nothing changes, from launch to results."""
    script = Script().at(1, arrive(0), admit(0, 0), prefill(0, 3, [1])).at(2, Apply(1, [0], [9]), step(joined=[0]))
    script.at(3, Apply(2, [0], [9]), step()).at(
        4, Apply(3, [0], [9]), Leave(0, 0, 1, Cause.LENGTH, keeps_row=1), step()
    )
    script.at(5, Apply(4, [], [], [0]), Leave(0, 0, 1, Cause.GROUP_END))
    busy, idle = lanes(script.timeline)
    assert busy == [["prefill", 0.0, 1.0, 0], ["useful", 1.0, 3.0, 0], ["padded", 3.0, 4.0, 0]]
    assert idle == [["idle", 0.0, 4.0, -1]]
    assert lanes(script.timeline, width_s=1.5)[0] == [["useful", 2.5, 3.0, 0], ["padded", 3.0, 4.0, 0]]
