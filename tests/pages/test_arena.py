"""The Arena without a browser: a recording on the first visit, the lock, the null result, the words of each figure."""

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from engine.config import EngineConfig, SchedulingConfig, WorkerConfig
from engine.loading import load_model
from engine.workload.race import SCHEDULERS
from engine.workload.race_spec import RaceSpec, run_race
from pages.parts.arena import board, contestants
from pages.parts.arena.job import Cancelled, Race, Stage, race_desk
from pages.parts.arena.numbers import times
from pages.parts.kernel_lab.jobs import jobs
from pages.parts.session import session

PAGES = Path(__file__).resolve().parents[2] / "pages"
SPEC = RaceSpec(requests=12, rows=2, spread=1.0, seed=1, repeats=1)


@pytest.fixture(scope="module")
def races() -> dict[float, Race]:
    """Real races of the tiny model that ended, by length spread: mixed and all equal."""
    scheduling = SchedulingConfig(max_model_len=256)
    model = load_model(EngineConfig(scheduling, WorkerConfig(random_weights="tiny", device="cpu")))
    made = {}
    for number, spread in enumerate((1.0, 0.0), start=1):
        spec = replace(SPEC, spread=spread)
        made[spread] = Race(spec, number, results=run_race(model, spec), info=model.info)
    model.close()
    return made


@pytest.fixture
def app() -> Iterator[AppTest]:
    """The Arena on a server where nothing was run."""
    race_desk().race = None
    jobs().forget()
    made = AppTest.from_file(str(PAGES / "main.py"), default_timeout=60).run()
    yield made.switch_page(str(PAGES / "arena.py")).run()
    race_desk().race = None
    jobs().forget()
    session().stop()


def _board(app: AppTest) -> dict:
    """What the browser was told."""
    assert not app.exception
    (component,) = app.get("bidi_component")
    return json.loads(component.proto.json)


def _tree(app: AppTest) -> str:
    """All that the browser gets: the words of the page and the board."""
    return " ".join([json.dumps(_board(app)), *(each.value for each in app.markdown), str(app.get("html"))])


def test_a_recorded_race_plays_on_the_first_visit(app: AppTest) -> None:
    """Guards the first minute: never an empty page, and nothing recorded that looks measured here."""
    shown = _board(app)
    assert shown["mode"] == "play" and shown["badge"]["kind"] == "Recorded"
    assert [run["name"] for run in shown["runs"]] == list(SCHEDULERS)
    assert {item["kind"] for item in shown["hero"]} == {"Recorded", "Computed"}
    assert not app.button(key="arena_run").disabled


def test_the_gain_of_my_run_is_absent_until_a_prediction_is_locked(app: AppTest, races: dict[float, Race]) -> None:
    """Guards the lock (acceptance test 1): the answer is in no element before, in the page after."""
    race_desk().race = race = races[1.0]
    secrets = [times(race.results["gain"]), '"hero"', '"factors"', '"latency"', '"lanes"', '"ticks"']
    before = _tree(app.run())
    assert not [secret for secret in secrets if secret in before]
    app.slider(key="arena_slider").set_value(1.8).run()
    app.button(key="arena_lock").click().run()
    after = _tree(app)
    assert not [secret for secret in secrets if secret not in after]
    assert "You predicted **1.8x**" in after
    assert not [each for each in app.slider if each.key == "arena_slider"]


def test_show_anyway_is_recorded_as_skipped(app: AppTest, races: dict[float, Race]) -> None:
    """Guards that a learner who only wants to look may, and that it is not counted as a prediction."""
    race_desk().race = races[1.0]
    app.run().button(key="arena_anyway").click().run()
    assert _board(app)["badge"]["kind"] == "Measured"
    assert "recorded as skipped" in _tree(app)
    assert [kept.skipped for kept in app.session_state["arena_predictions"].values()] == [True]


def test_a_prediction_is_for_one_question(app: AppTest, races: dict[float, Race]) -> None:
    """Guards against a lock on mixed lengths that opens the answer for equal ones."""
    race_desk().race = races[1.0]
    app.run().button(key="arena_lock").click().run()
    race_desk().race = races[0.0]
    assert times(races[0.0].results["gain"]) not in _tree(app.run())


def test_equal_lengths_explain_the_null_result(app: AppTest, races: dict[float, Race]) -> None:
    """Guards against a fake win (acceptance test 8): the bound is 1, and the page says why nothing can be gained."""
    race_desk().race = races[0.0]
    app.run().button(key="arena_anyway").click().run()
    shown = _board(app)
    assert races[0.0].results["bound"] == pytest.approx(1.0)
    assert shown["is_null"] and shown["factors"]["title"] == "Equal lengths: nothing to gain"
    assert "equally long" in shown["sense"] or "disturbed" in shown["sense"] or "other work" in shown["sense"]


def test_while_it_runs_an_open_question_sends_static_only(races: dict[float, Race]) -> None:
    """Guards the lock during the race: lanes that fill live would give the answer away."""
    race = Race(SPEC, 7, stage=Stage("in_flight", "repeat 1", 0.9))
    laps = {
        name: {"lanes": run["lanes"], "ticks": run["ticks"]} for name, run in races[1.0].results["schedulers"].items()
    }
    states = {run["name"]: run for run in board.live(race, laps, "Racing", open_question=True)["runs"]}
    assert "lanes" in states["static"]
    assert all(
        "lanes" not in states[name] and states[name]["state"] == "hidden" for name in SCHEDULERS if name != "static"
    )
    assert all("lanes" in run for run in board.live(race, laps, "Racing", open_question=False)["runs"])


def test_all_schedulers_did_the_same_work(races: dict[float, Race]) -> None:
    """Guards the race (acceptance test 2): the same requests, the same greedy tokens."""
    for race in races.values():
        runs = race.results["schedulers"].values()
        work = [sorted((each["prompt_tokens"], each["output_tokens"]) for each in run["requests"]) for run in runs]
        assert race.results["tokens_identical"] and all(one == work[0] for one in work)


def test_every_figure_has_words_and_a_table(races: dict[float, Race]) -> None:
    """Guards accessibility: nothing is told by a picture alone."""
    shown = board.finished(races[1.0].results, "race", "Measured", "here")
    assert {each["of"] for each in shown["tables"]} == {"lanes", "factors", "latency"}
    assert all(len(line) == len(each["heads"]) for each in shown["tables"] for line in each["lines"])
    assert all(run["summary"] for run in shown["runs"]) and shown["factors"]["summary"]
    assert all(line["words"] for each in shown["latency"] for line in each["lines"])
    assert "p99 is left out" in next(each for each in shown["tables"] if each["of"] == "latency")["note"]


def test_a_race_that_fails_says_why(app: AppTest) -> None:
    """Guards against a race that ends in silence; the recording is shown again and the button works."""
    race_desk().race = Race(SPEC, 9, error="the engine was stopped")
    app.run()
    assert "the engine was stopped" in app.error[0].value
    assert _board(app)["badge"]["kind"] == "Recorded" and not app.button(key="arena_run").disabled


def test_a_race_can_be_cancelled(app: AppTest) -> None:
    """Guards against a race that holds the engine for a minute after somebody changed his mind."""
    race = Race(SPEC, 9, stage=Stage("static", "repeat 1", 0.2))
    race_desk().race = race
    app.run().button(key="arena_cancel").click().run()
    with pytest.raises(Cancelled):
        race.report("static, repeat 1", 0.3)
    race.error = "the race was cancelled"
    assert "cancelled" in app.run().info[0].value and not app.error
    assert not app.button(key="arena_run").disabled


def test_the_self_checks_of_a_race_are_told(app: AppTest) -> None:
    """Guards the chips: each check with its words, and the race of this tree passes them."""
    shown = _board(app)["checks"]
    assert {check["id"] for check in shown} >= {"complete", "blocks", "tokens", "little"}
    assert all(check["ok"] is not False and check["words"] and check["note"] for check in shown)


def test_progress_only_grows() -> None:
    """Guards the bar: each lap reports its own share from 0, the race as a whole never goes back."""
    race = Race(SPEC, 1)
    seen = []
    for what in ("static, warm-up", "in-flight, warm-up", "static, repeat 1", "in-flight, repeat 1"):
        for share in (0.0, 0.5, 1.0):
            race.report(what, share)
            seen.append(race.stage.done)
    assert seen == sorted(seen) and seen[-1] < 1
    assert race.stage.scheduler == "in_flight" and race.stage.words == "repeat 1"


@pytest.mark.parametrize(
    ("url", "said"),
    [("http://example.com", "another one together with --remote"), ("127.0.0.1:8000", "url: http://127.0.0.1:8000")],
)
def test_a_wrong_url_is_one_line_at_once(app: AppTest, url: str, said: str) -> None:
    """Guards other machines: none is asked before the reader says so; and a race that would end with a traceback."""
    app.text_input(key="arena_others_url").set_value(url).run()
    app.button(key="arena_others_run").click().run()
    assert said in app.error[0].value and jobs().get(contestants.JOB) is None


def test_other_contestants_race_in_a_process_of_their_own(app: AppTest) -> None:
    """Guards the expander: a real race of the chosen ones, bars, words and a table that name each."""
    module = contestants._module(RaceSpec(requests=4, rows=2), ["whole"], False)
    job = jobs().start(contestants.JOB, (*module[:3], "--random-weights", "tiny", *module[3:]))
    while job.running:
        time.sleep(0.1)
    assert not job.error, job.error
    app.run()
    assert not app.exception and len(app.dataframe) == 1 and len(app.get("plotly_chart")) == 1
    assert any("prompts whole" in each.value and "x in-flight" in each.value for each in app.markdown)


def test_a_server_that_is_not_there_is_said(app: AppTest) -> None:
    """Guards the wait: nobody races for a minute to learn that the URL leads nowhere."""
    job = jobs().start(contestants.JOB, contestants._module(SPEC, ["http://127.0.0.1:1"], False))
    while job.running:
        time.sleep(0.1)
    assert job.output is None and not any("static" in line for line in job.lines)
    assert "nothing answers at http://127.0.0.1:1" in app.run().error[0].value
