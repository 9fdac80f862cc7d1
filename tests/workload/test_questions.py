"""The three questions of the page, asked of the recording that ships."""

from pathlib import Path

import pytest

from engine.config import SchedulingConfig
from engine.trace.files import load
from engine.trace.timeline import Timeline, split_runs
from engine.workload import questions
from engine.workload.questions import QUESTIONS, ask, changes_of

DEMO = Path(__file__).resolve().parents[2] / "lessons" / "recordings" / "demo.fdtrace"


@pytest.fixture(scope="module")
def run() -> Timeline:
    """The Theatre's first run."""
    return split_runs(load(DEMO))[-1]


def test_each_question_changes_one_thing_and_really_changes_it():
    """A question that asks for what is there already would show two equal runs."""
    for config in (SchedulingConfig(), SchedulingConfig(1, preemption="cheapest", capacity="guaranteed-no-evict")):
        for question in QUESTIONS:
            ((name, value),) = changes_of(question, config).items()
            assert getattr(config, name) != value
    assert changes_of("pool", SchedulingConfig(pool_blocks=64)) == {"pool_blocks": 71}
    with pytest.raises(ValueError, match="one of pool, capacity, victim"):
        changes_of("weather", SchedulingConfig())


def test_more_blocks_preempt_less_and_the_answer_says_so(run: Timeline):
    """The demo preempts because its pool is too small: a larger one must preempt less, and part where it first does."""
    found, values = ask(run, "pool")
    before, after = values["before"], values["after"]
    assert after["preemptions"] < before["preemptions"] == values["measured"]["preemptions"]
    assert values["relative"]["preemptions"] == after["preemptions"] / before["preemptions"] - 1
    assert values["settings"] == [["pool_blocks", 64, 71]] and values["provenance"] == "Simulated"
    assert found.timelines["after"].info["config"]["scheduling"]["pool_blocks"] == 71
    assert values["first_difference"]["before"]["preempted"]


def test_a_run_that_is_too_long_is_refused_in_words(run: Timeline, monkeypatch):
    """A live run of hours must not occupy the app for minutes."""
    monkeypatch.setattr(questions, "MAX_STEPS", 100)
    with pytest.raises(ValueError, match="388 steps; questions are answered up to 100"):
        ask(run, "pool")
