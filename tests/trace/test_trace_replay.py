"""The replay as one HTML file: it holds what the frames held, and asks nobody for anything."""

import json
import re
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from engine.trace import replay
from engine.trace.events import Reason
from engine.trace.files import load
from engine.trace.frame import POLICIES, frame
from engine.trace.pool_cells import pool_cells
from engine.trace.replay import data as replay_data
from engine.trace.replay import to_html
from engine.trace.replay.data import CELLS, QUEUE_SHOWN, run_data
from engine.trace.timeline import Timeline
from tests.trace.trace_runs import Played, Scenario
from tests.trace.trace_script import arrive, one_answer, step

DEMO = Path(__file__).resolve().parents[2] / "lessons" / "recordings" / "demo.fdtrace"
WORDS = json.loads((Path(replay.__file__).parent / "words.json").read_text(encoding="utf-8"))


def check_against_frames(run: Timeline, made: dict) -> None:
    """Play the changes as the viewer does, and compare each step with the state of that step."""
    cells: dict[int, tuple] = {}
    waiting: list[int] = []
    for at, (changed, queue) in enumerate(zip(made["pool"], made["queue"])):
        state = run.state_at(run.seq_of_step(made["first"] + at))
        cells |= {changed[i]: tuple(changed[i + 1 : i + 4]) for i in range(0, len(changed), 4)}
        real = pool_cells(state, CELLS)
        expected = zip(real["owner"], real["state"], real["refs"])
        assert [cells.get(cell, (-1, 0, 0)) for cell in range(len(real["owner"]))] == list(expected)
        waiting = queue or waiting
        assert waiting == [*state.waiting[:QUEUE_SHOWN], len(state.waiting)]
        rows = {row: (entry[0], int(entry[3])) for row, entry in state.step.ran.items()}
        drawn = {row: one[2:] for row, lane in enumerate(made["lanes"]) for one in lane if one[0] <= at <= one[1]}
        assert {row: tuple(found) for row, found in drawn.items()} == rows
        assert made["steps"][at][1] == state.step.used


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_the_changes_add_up_to_the_states(seed: int):
    """A change that is forgotten once shows wrong blocks until the end of the run."""
    run = Played(Scenario.draw(seed), seed=seed).timeline
    if run.step_count:
        check_against_frames(run, run_data(run))


def test_of_a_long_run_the_newest_steps_are_replayed(monkeypatch):
    """The file must stay small: what is left out is said, and what is shown still begins from the right state."""
    monkeypatch.setattr(replay_data, "MOST_STEPS", 7)
    run = Played(Scenario.draw(5), seed=5).timeline
    made = run_data(run)
    assert len(made["steps"]) == 7 and made["left_out"] == made["first"] - 1 == run.last_step - 7
    assert all(event[0] >= made["first"] for event in made["events"])
    check_against_frames(run, made)


def test_the_page_asks_nobody_and_is_small():
    """The file is handed to a class: it must open anywhere, and nothing in it may reach out."""
    page = to_html(load(DEMO), "zh")
    assert "://" not in page and not re.search(r"""(src|href)\s*=|url\(|@import|fetch\(|import\(""", page)
    assert "default-src 'none'" in page and '"language":"zh"' in page
    assert len(page.encode()) < 2_000_000


def test_a_name_cannot_end_the_script():
    """A request is named by whoever sends it."""
    script = one_answer([0.1])
    hostile = arrive(1)
    hostile.name = b"</script><script>alert(1)</script>"
    page = to_html(script.at(0.2, hostile, step(waiting=1)).records)
    assert page.count("</script>") == 2 and "\\u003c/script>" in page


def test_the_events_are_those_of_the_frame():
    """The list beside the lanes must tell the same story as the Theatre."""
    run = Played(Scenario.draw(11), seed=11).timeline
    shown = frame(run, run.last_seq)["events"]
    assert [event[:3] for event in run_data(run)["events"]][-len(shown) :] == [
        [line["step"], line["kind"], line["id"]] for line in shown
    ]


def test_every_word_of_the_viewer_is_there_in_both_languages():
    """Guards against an id on screen: of a reason, an event, a policy, or one that the script names."""
    sources = "".join(path.read_text() for path in Path(replay.__file__).parent.glob("*.js"))
    named = set(re.findall(r'\b(?:t|button|card)\("([a-z_]+)"', sources))
    kinds = [
        "preempt",
        "evict",
        "admit",
        "resume",
        "hit",
        "finish",
        "abort",
        "refuse",
        "pause",
        "resume_cmd",
        "Recorded",
        "Simulated",
    ]
    reasons = [reason.name.lower() for reason in Reason if Reason.NONE < reason < Reason.TOO_LONG]
    assert not {*named, *kinds, *reasons, *POLICIES} - WORDS.keys()
    fields = re.compile(r"\{(\w+)\}")
    for name, (english, chinese) in WORDS.items():
        assert set(fields.findall(english)) == set(fields.findall(chinese)), name
