"""Exports open elsewhere and say the same as the pages (acceptance test 10)."""

import csv
import io
import json

from hypothesis import given, settings
from hypothesis import strategies as st

from engine.trace.events import Kind
from engine.trace.export import to_chrome, to_csv, to_jsonl
from engine.trace.metrics import summary
from tests.trace.trace_runs import Played, Scenario
from tests.trace.trace_script import Script, one_answer

SEEDS = st.integers(0, 2**32 - 1)


def check_nesting(events: list[dict]) -> None:
    """On each async track begins and ends pair up like brackets, and time does not run backwards."""
    tracks: dict[tuple, list[dict]] = {}
    for event in events:
        if event["ph"] in "be":
            tracks.setdefault((event["cat"], event["id"]), []).append(event)
    for track in tracks.values():
        stack: list[str] = []
        assert [event["ts"] for event in track] == sorted(event["ts"] for event in track)
        for event in track:
            if event["ph"] == "b":
                stack.append(event["name"])
            else:
                assert stack.pop() == event["name"]
        assert stack == []


@settings(max_examples=40, deadline=None)
@given(SEEDS)
def test_the_chrome_trace_is_valid_and_its_async_events_nest(seed):
    """Perfetto drops tracks whose events do not nest, without a word."""
    run = Played(Scenario.draw(seed), seed=seed).timeline
    events = json.loads(to_chrome(run))["traceEvents"]
    check_nesting(events)
    state = run.state_at(run.last_seq)
    assert sum(event["ph"] == "b" and event["name"].startswith("request") for event in events) == state.totals.arrived
    assert sum(event["ph"] == "X" and event["name"].startswith("step ") for event in events) == run.step_count
    arrows = [event["ph"] for event in sorted(events, key=lambda e: e["ts"]) if event["name"] == "preempt to resume"]
    assert arrows.count("s") == state.totals.preemptions and arrows.count("f") <= arrows.count("s")
    assert all(event["dur"] >= 0 for event in events if event["ph"] == "X")


@settings(max_examples=40, deadline=None)
@given(SEEDS)
def test_csv_sums_equal_the_numbers_on_screen(seed):
    """A spreadsheet over the export must come to the same totals as the page."""
    run = Played(Scenario.draw(seed), seed=seed).timeline
    found = summary(run)
    requests = list(csv.DictReader(io.StringIO(to_csv(run))))
    steps = list(csv.DictReader(io.StringIO(to_csv(run, "steps"))))
    done = [line for line in requests if line["state"] == "finished"]
    assert sum(int(line["prompt_tokens"]) for line in done) == found["total_input_tokens"]
    assert sum(int(line["output_tokens"]) for line in done) == found["total_output_tokens"]
    assert sum(int(line["recomputed_tokens"]) for line in requests) == found["recomputed_tokens"]
    assert sum(int(line["cached_tokens"]) for line in requests) == found["cached_tokens"]
    assert sum(int(line["prefill_tokens"]) for line in steps) == found["prefill_tokens"] + found["recomputed_tokens"]
    assert sum(int(line["decode"]) + int(line["prefill"]) for line in steps) == found["row_steps"]["useful"]


def test_jsonl_has_a_line_for_each_record():
    """Other tools read it line by line: one object each, all fields, text readable."""
    script = one_answer([1.0])
    script.recorder.emit_pieces([65])
    lines = [json.loads(line) for line in to_jsonl(script.records).splitlines()]
    assert [line["seq"] for line in lines] == list(range(len(script.records)))
    assert {line["kind"] for line in lines} <= {kind.name for kind in Kind}
    assert lines[0]["info"]["model"] == "m"
    assert lines[1]["name"] == "name-0" and lines[1]["prompt_ids"] == [0, 1, 2]
    assert lines[-1]["pieces"] == {"65": "<65>"}


def test_every_run_of_a_recording_is_exported():
    """A recorded race holds several runs; request numbers repeat in them and must stay apart."""
    records = one_answer([1.0]).records
    both = records + [record._replace(seq=record.seq + len(records)) for record in records]
    assert [line["run"] for line in csv.DictReader(io.StringIO(to_csv(both)))] == ["1", "2"]
    events = json.loads(to_chrome(both))["traceEvents"]
    check_nesting(events)
    assert {event["pid"] for event in events} == {1, 2}


def test_an_unfinished_run_is_closed_where_it_stops():
    """A recording that was cut: open slices end with it."""
    check_nesting(json.loads(to_chrome(one_answer([1.0, 2.0]).records[:6]))["traceEvents"])
    assert to_csv(Script().records) == ""
