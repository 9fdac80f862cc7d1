"""The lessons in the app, without a browser: the lock, links, exercises, recordings, and what a learner may run."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from google.protobuf.text_format import MessageToString
from streamlit.testing.v1 import AppTest

from engine.config import EngineConfig, SchedulingConfig, WorkerConfig
from engine.loading import load_model
from engine.workload.race_spec import RaceSpec, run_race
from lessons.kit import shelf
from lessons.kit.perform import machine
from lessons.kit.progress import own_progress
from lessons.kit.shelf import Kept, Shelf, own_results
from pages.parts.lessons import solving
from pages.parts.session import session

PAGES = Path(__file__).resolve().parents[2] / "pages"


@pytest.fixture(scope="module")
def raced() -> dict[str, Kept]:
    """Real results of L8's experiments, small, on the tiny model."""
    model = load_model(EngineConfig(SchedulingConfig(max_model_len=256), WorkerConfig(random_weights="tiny")))
    two = ("static", "in_flight")
    equal = RaceSpec(requests=8, rows=4, spread=0.0, repeats=1, schedulers=two)
    mixed = RaceSpec(requests=12, rows=4, spread=1.0, repeats=1)
    specs = {
        "equal": (equal, {"requests": 24, "repeats": 1}),
        "mixed": (mixed, {"spread": 1.0, "requests": 64, "arrivals": 0, "rows": 4, "repeats": 1}),
    }
    found = {name: Kept(run_race(model, spec), values, machine("TEST CPU")) for name, (spec, values) in specs.items()}
    model.close()
    return found


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A learner's folder of its own."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def app(home: Path) -> Iterator[AppTest]:
    """The list of lessons, for a learner who has done nothing yet."""
    made = AppTest.from_file(str(PAGES / "main.py"), default_timeout=60).run()
    yield made.switch_page(str(PAGES / "lessons.py")).run()
    session().stop()


@pytest.fixture
def measured(raced: dict[str, Kept], home: Path) -> None:
    """The learner has measured everything before (and the page may not tell)."""
    for name, kept in raced.items():
        own_results().put("L8", name, kept)


def _open(app: AppTest, cell: str, **more: str) -> AppTest:
    app.query_params["lesson"], app.query_params["cell"] = "L8", cell
    for name, value in more.items():
        app.query_params[name] = value
    app.run()
    assert not app.exception
    return app


def _tree(app: AppTest) -> str:
    """All that the browser gets, in words."""
    return "\n".join(_words(app._tree))


def _words(node: object) -> Iterator[str]:
    """The messages of an element and of all within it."""
    proto = getattr(node, "proto", None)
    if proto is not None:
        yield MessageToString(proto, as_utf8=True)
    for child in getattr(node, "children", {}).values():
        yield from _words(child)


def _click(app: AppTest, key: str) -> AppTest:
    app.button(key=key).click().run()
    assert not app.exception
    return app


def _settle_all(app: AppTest, last: str) -> AppTest:
    """Show everything up to a step without predicting."""
    for cell in ("equal_question", "mixed_question", "factors_question"):
        _click(_open(app, cell), "lesson_anyway")
    return _open(app, last)


def test_the_list_promises_nothing_that_is_not_written(app: AppTest) -> None:
    """Guards the list: a written lesson can be opened, all others are named as not written yet."""
    assert [button.key for button in app.button if (button.key or "").startswith("lesson_open_")]
    words = _tree(app)
    assert "Not written yet" in words and "Capstone" in words
    _click(app, "lesson_open_L8")
    assert app.query_params["lesson"] == "L8"


def test_an_unwritten_lesson_says_so(app: AppTest) -> None:
    """Guards links to lessons that are not there."""
    app.query_params["lesson"] = "L18"
    app.run()
    assert not app.exception and "not written yet" in app.info[0].value


def test_the_answer_is_absent_before_the_lock_and_present_after(app: AppTest, measured: None) -> None:
    """Guards the lock (acceptance test 1): not in the step, not in later ones, not in the panel; then it is there."""
    secrets = ("TEST CPU", "<table class=", "nobody waits for a neighbour", "lesson_figure_")
    for cell in ("equal_question", "equal_run", "equal_compare", "lanes", "gain", "factors", "takeaway"):
        shown = _tree(_open(app, cell))
        assert not [secret for secret in secrets if secret in shown], cell
    app = _open(app, "equal_question")
    app.slider[0].set_value(1.5).run()
    _click(app, "lesson_lock")
    assert "You predicted **1.50x** (locked)" in _tree(app) and not app.slider
    after = _tree(_open(app, "equal_compare"))
    assert all(secret in after for secret in secrets[:3])
    assert "observed" in _tree(_open(app, "equal_question"))


def test_show_anyway_is_recorded_as_skipped(app: AppTest, measured: None) -> None:
    """Guards the second way past a question, on disk and on the page."""
    _click(_open(app, "equal_question"), "lesson_anyway")
    assert own_progress().answer("L8", "equal").skipped
    assert "recorded as skipped" in _tree(app)


def test_a_prediction_survives_a_new_tab(app: AppTest, measured: None) -> None:
    """Guards against a lock that opens again with a reload."""
    _click(_open(app, "equal_question"), "lesson_lock")
    other = AppTest.from_file(str(PAGES / "main.py"), default_timeout=60).run()
    other = _open(other.switch_page(str(PAGES / "lessons.py")), "equal_question")
    assert "(locked)" in _tree(other) or "observed" in _tree(other)
    assert not [button for button in other.button if button.key == "lesson_lock"]


def test_a_prepared_link_opens_step_seed_language_and_projector(app: AppTest, measured: None) -> None:
    """Guards links of a teacher: another seed is another experiment, with questions of its own."""
    _click(_open(app, "equal_question"), "lesson_lock")
    app = _open(app, "2", seed="7", lang="zh", present="1")
    assert "大家点同样的菜" in _tree(app) and "22.4px" in _tree(app)
    assert [button for button in app.button if button.key == "lesson_lock"]
    assert {name: app.query_params[name] for name in ("seed", "lang", "present")} == {
        "seed": "7",
        "lang": "zh",
        "present": "1",
    }


def test_a_bad_link_opens_what_makes_sense(app: AppTest) -> None:
    """Guards addresses typed by hand."""
    assert "1 / " in _tree(_open(app, "99", seed="-4"))
    app.query_params["lesson"] = "../../etc"
    assert not app.run().exception


def test_next_and_back_turn_the_pages(app: AppTest) -> None:
    """Guards the buttons, their keys, and the address that follows."""
    app = _open(app, "1")
    assert app.button(key="lesson_back").disabled and app.button(key="lesson_next").proto.shortcut.lower() == "right"
    _click(app, "lesson_next")
    assert app.query_params["cell"] == "2"
    _click(app, "lesson_back")
    assert app.query_params["cell"] == "1"


def test_factors_name_what_the_learner_missed_most(app: AppTest, measured: None) -> None:
    """Guards the decomposition: each factor with the learner's number, and the largest miss is marked in words."""
    for cell in ("equal_question", "mixed_question"):
        _click(_open(app, cell), "lesson_anyway")
    app = _open(app, "factors_question")
    for slider, value in zip(app.slider, (0.5, 1.0, 1.0)):
        slider.set_value(value)
    _click(app.run(), "lesson_lock")
    table = next(html for html in _tree(_open(app, "factors")).split("ls-table") if "missed most" in html)
    assert table.index("missed most") > table.index("drain")


def test_an_exercise_is_graded_and_remembered(app: AppTest, measured: None) -> None:
    """Guards grading in the page: a wrong answer gets its word, a hint can be had, the right one stays passed."""
    app = _settle_all(app, "drain_task")
    app.radio[0].set_value("late").run()
    _click(app, "lesson_check_L8_drain_why")
    assert "counted apart" in app.warning[0].value
    _click(app, "lesson_hint_drain_why")
    assert "supposes that all rows are full" in _tree(app)
    app.radio[0].set_value("queue").run()
    _click(app, "lesson_check_L8_drain_why")
    assert app.success and own_progress().attempt("L8", "drain_why").tries == 2
    assert own_progress().attempt("L8", "drain_why").passed


def test_own_code_runs_in_a_child_on_loopback_only(
    app: AppTest, measured: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guards the editor: it grades real code, and is not there where others can reach the server."""
    app = _settle_all(app, "code")
    assert "SOLUTION" not in _tree(app) and "grade_code" not in _tree(app)
    app.text_area[0].set_value("def bound(lengths, rows):\n    import os\n    return os.getpid()\n").run()
    _click(app, "lesson_check_L8_code")
    assert app.warning and not own_progress().attempt("L8", "code").passed
    monkeypatch.setattr(solving, "LOOPBACK", set())
    app.run()
    assert not app.text_area and "loopback" in app.info[-1].value


def test_a_recording_stands_in_for_a_gpu(
    app: AppTest, raced: dict[str, Kept], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guards the branch without a GPU: the recording is offered, and what it shows is called Recorded."""
    monkeypatch.setattr(shelf, "RECORDINGS", tmp_path / "recordings")
    Shelf(tmp_path / "recordings", recorded=True).put("L8", "equal", raced["equal"])
    _click(_open(app, "equal_question"), "lesson_anyway")
    _click(_open(app, "equal_run"), "lesson_recording_equal")
    assert "Recorded · TEST CPU" in _tree(app)
    assert "Recorded · TEST CPU" in _tree(_open(app, "equal_compare"))
    assert own_results().get("L8", "equal").kind == "Recorded"


def test_reset_forgets_the_lesson_and_keeps_the_ledger(app: AppTest, measured: None) -> None:
    """Guards the reset of a classroom machine."""
    app = _settle_all(app, "takeaway")
    assert own_progress().finished("L8") and "batching_gain" in own_progress().ledger
    _click(app, "lesson_reset")
    assert own_progress().answer("L8", "equal") is None and "batching_gain" in own_progress().ledger
    assert own_results().get("L8", "equal") is None and "1 / " in _tree(app)


def test_the_whole_lesson_is_told_in_chinese(app: AppTest, measured: None) -> None:
    """Guards each step in the other language: no exception, and Chinese words in it."""
    _settle_all(app, "1")
    for step in range(1, 18):
        assert "词元" in _tree(_open(app, str(step), lang="zh")) or "动态" in _tree(app), step


def test_progress_is_a_plain_file(app: AppTest, home: Path) -> None:
    """Guards the promise that it is JSON with a version, below the user's data folder."""
    _click(_open(app, "equal_question"), "lesson_anyway")
    document = json.loads((home / "flightdeck" / "progress.json").read_text(encoding="utf-8"))
    assert document["schema"] == 1 and document["lessons"]["L8"]["answers"]["equal"]["value"] is None
