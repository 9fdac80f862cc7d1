"""The event log: everything that happened, found again by kind and by request."""

from hypothesis import given, settings
from hypothesis import strategies as st

from engine.trace.event_log import GROUPS, EventLog
from engine.trace.events import Cause, Leave, Refuse
from engine.trace.frame import frame
from engine.trace.timeline import Timeline
from engine.trace.views import label, request_of
from tests.trace.trace_runs import Played, Scenario
from tests.trace.trace_script import Script, admit, arrive, prefill


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32 - 1), st.floats(0, 1))
def test_the_log_has_what_the_frames_had_however_it_was_read(seed: int, share: float):
    """A line that a frame showed must be in the log; one that followed a growing run equals one read at the end."""
    run = Played(Scenario.draw(seed), seed=seed).timeline
    growing, followed = Timeline(), EventLog()
    for at, record in enumerate(run):
        growing.append(record)
        if at == int(share * len(run)):
            followed.page(growing)
    page = EventLog().page(run, step=run.last_step)
    assert followed.page(growing, step=run.last_step) == page
    shown = [line for line in frame(run, run.last_seq)["events"] if line["kind"] not in ("pause", "resume_cmd")]
    assert page["lines"][-len(shown) :] == shown[-len(page["lines"]) :]
    assert sum(EventLog().page(run, [group])["total"] for group in GROUPS) == page["total"]


def test_a_request_is_found_by_letter_number_and_name():
    """A letter that is also part of other names must find the one request; what concerns none is left out."""
    script = Script().at(0, arrive(0), arrive(4), admit(0, 0), prefill(0, 3, [1]))
    script.at(1, Refuse(4, 13, 9, 8), Leave(0, 0, 1, Cause.ABORT))
    log, run = EventLog(), script.timeline
    for text in ("E", "e", "4", "name-4"):
        page = log.page(run, search=text)
        assert [one["id"] for one in page["requests"]] == [4], text
        assert [line["kind"] for line in page["lines"]] == ["refuse"]
    assert {one["id"] for one in log.page(run, search="NAME")["requests"]} == {0, 4}
    assert log.page(run, search="nobody") == {"lines": [], "total": 0, "here": 0, "requests": []}


def test_a_long_log_is_a_window_around_the_step():
    """A page of 10,000 lines would be slower than the run; the reader's step must be inside the window."""
    script = Script()
    for request in range(400):
        script.at(request, arrive(request), admit(request, 0), prefill(0, 3, [1]), Leave(request, 0, 1, Cause.ABORT))
    page = EventLog().page(script.timeline, ["admit"], step=300)
    assert (len(page["lines"]), page["total"], page["here"]) == (200, 400, 300)
    assert page["lines"][149]["step"] == 300


def test_a_label_leads_back_to_its_request():
    """A link names a request by its letter; a wrong one names nobody."""
    assert [request_of(label(request)) for request in (0, 25, 26, 199)] == [0, 25, 26, 199]
    assert (label(199), request_of("r7"), request_of("12")) == ("R7", 199, 12)
    assert [request_of(text) for text in ("", "?", "7R", "RR", "R-1", "Ä", "²")] == [None] * 7


def test_the_log_begins_anew_when_what_comes_next_was_dropped():
    """A run of days drops its oldest steps: the log may not stop at records that are gone, nor show those steps."""
    script = Script(max_num_seqs=1)
    run, log = Timeline(max_steps=10), EventLog()
    for request in range(1_100):
        script.at(request, arrive(request), admit(request, 0), prefill(0, 3, [1]), Leave(request, 0, 1, Cause.ABORT))
    for record in script.records:
        run.append(record)
        if record.step == 3:
            log.page(run)
    page = log.page(run, ["admit"], step=run.last_step)
    assert run.first_step > 1_000 and page == EventLog().page(run, ["admit"], step=run.last_step)
    assert page["total"] == run.step_count == 1_100 - run.first_step + 1
