"""The kit: what is kept on disk, what may run, what a cell may do, and what is said in which language."""

import json
import os
import threading
from pathlib import Path

import numpy as np
import pytest
from lesson_tests import finished

from lessons import kit, record
from lessons.book import cells_of, lesson, steps_of
from lessons.headless import HeadlessStage
from lessons.kit import sandbox
from lessons.kit.progress import Entry, Progress, lesson_key
from lessons.kit.say import pieces, say
from lessons.kit.shelf import Kept, Shelf
from lessons.kit.stage import Stage, Waiting
from lessons.run import LessonRun

NOTEBOOK = """
# %% one [markdown] kind="question"
# ## One

# %%
kit.predict("guess", say("q", "?"), kit.Number(0, 4, 1, start=0))

# %% two [markdown] kind="experiment"
# ## Two

# %%
kit.predict("other", say("q", "?"), kit.Number(0, 4, 1, start=0))

# %%
kept = kit.measure("m", say("m", "measure"), lambda report: {"x": 1})
print("x is", kept.results["x"])
"""


class _Widgets(Stage):
    """Waits for everything, as the app does."""

    def __init__(self) -> None:
        super().__init__(Progress(None), "L8", "none")
        self.ran = False

    def results(self, experiment: object) -> Kept:
        if not self.ran:
            raise Waiting
        return Kept({"x": 1}, {})


def _run(source: str) -> LessonRun:
    """A lesson of that source, on a stage that waits."""
    known = lesson("L8")
    cells = cells_of(source)
    made = type(known)(known.plan, known.path, tuple(cells), tuple(steps_of(cells)))
    run = LessonRun(made, _Widgets())
    run._space |= {"kit": kit, "say": say}
    return run


def test_cells_behind_something_open_are_not_run() -> None:
    """Guards the lock where it is made: an open question, or an experiment nobody started, stops what follows."""
    run = _run(NOTEBOOK)
    assert not run.advance(1) and [cell.state for cell in run.cells][:4] == ["done", "done", "new", "new"]
    assert run.open_step(1) == 0 and run.open_step(0) is None
    run.stage.progress.settle("L8", "guess", None)
    assert not run.advance(1) and run.cells[3].state == "done" and run.cells[4].state == "new"
    run.stage.progress.settle("L8", "other", 2.0)
    assert not run.advance(1) and run.cells[4].state == "waiting"
    run.stage.ran = True
    assert run.advance(1) and run.cells[4].items[-1].text == "x is 1"


def test_a_failing_cell_is_shown_with_its_line() -> None:
    """Guards against a lesson's mistake that takes the page down; its line is that of the file."""
    run = _run("# %% a [markdown]\n# ## A\n\n# %%\n\n1 / 0\n")
    assert not run.advance(0) and run.cells[1].state == "failed"
    assert "ZeroDivisionError" in run.cells[1].error and "line 6" in run.cells[1].error


def test_functions_of_a_cell_see_what_later_cells_define() -> None:
    """Guards the one namespace of a notebook."""
    run = _run("# %% a [markdown]\n# ## A\n\n# %%\ndef f():\n    return later\n\n# %%\nlater = 3\nprint(f())\n")
    assert run.advance(0) and run.cells[2].items[0].text == "3"


def test_the_first_prediction_stays() -> None:
    """Guards against a second thought after the answer was seen."""
    progress = Progress(None)
    progress.settle("L8", "q", 1.5)
    progress.settle("L8", "q", 2.0)
    progress.observe("L8", "q", 2.5, 2.1)
    found = progress.answer("L8", "q")
    assert (found.value, found.theory, found.observed, found.skipped) == (1.5, 2.5, 2.1, False)


def test_what_passed_stays_passed() -> None:
    """Guards exercises: trying something else afterwards does not take the pass away; tries are counted."""
    progress = Progress(None)
    for passed in (False, True, False):
        progress.attempted("L8", "x", "answer", passed, "word")
    assert progress.attempt("L8", "x").passed and progress.attempt("L8", "x").tries == 3


def test_progress_goes_through_the_file(tmp_path: Path) -> None:
    """Guards the disk: another object (another process) sees it, and export and import give the same."""
    one, two = Progress(tmp_path / "p.json"), Progress(tmp_path / "p.json")
    one.enter("bandwidth", Entry(4.2e12, "B/s", "copy", "GPU", "2026-01-01", "L0"))
    one.settle(lesson_key("L8", 7), "q", "choice")
    assert two.ledger["bandwidth"].value == 4.2e12 and two.answer("L8@7", "q").value == "choice"
    assert two.answer("L8", "q") is None
    three = Progress(None)
    three.take(two.export())
    assert three.export() == one.export()
    one.reset("L8@7")
    assert two.answer("L8@7", "q") is None and "bandwidth" in two.ledger
    two.reset_all()
    assert not one.ledger


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("[]", "schema"),
        ("{", "Expecting"),
        ('{"schema": 99, "lessons": {}, "ledger": {}}', "schema"),
        ('{"schema": 1, "lessons": [], "ledger": {}}', "lessons"),
        ('{"schema": 1, "lessons": {"L8": {"answers": {"q": {"nonsense": 1}}}}, "ledger": {}}', "not a progress file"),
        ('{"schema": 1, "lessons": {}, "ledger": {"a": {"value": "x", "unit": "", "how": ""}}}', "ledger"),
    ],
)
def test_a_file_that_is_none_of_ours_is_refused(text: str, field: str) -> None:
    """Guards import: one line that names what is wrong, and nothing is lost."""
    progress = Progress(None)
    progress.settle("L8", "q", 1.0)
    with pytest.raises(ValueError, match=field):
        progress.take(text)
    assert progress.answer("L8", "q").value == 1.0


def test_a_broken_file_is_put_aside(tmp_path: Path) -> None:
    """Guards against a page that cannot open, and against losing what was in the file."""
    path = tmp_path / "p.json"
    path.write_text("{half", encoding="utf-8")
    progress = Progress(path)
    assert progress.ledger == {} and path.with_suffix(".unreadable").read_text(encoding="utf-8") == "{half"


def test_many_threads_lose_nothing(tmp_path: Path) -> None:
    """Guards the lock around reading, changing and writing."""
    progress = Progress(tmp_path / "p.json")
    threads = [threading.Thread(target=progress.settle, args=("L8", f"q{n}", float(n))) for n in range(16)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert all(Progress(tmp_path / "p.json").answer("L8", f"q{n}").value == n for n in range(16))


def test_the_data_folder_follows_xdg(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Guards where files go: absolute XDG_DATA_HOME, else the usual place."""
    from lessons.kit.places import data_folder

    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert data_folder() == tmp_path / "flightdeck"
    monkeypatch.setenv("XDG_DATA_HOME", "relative")
    assert data_folder() == Path.home() / ".local" / "share" / "flightdeck"


def test_results_come_back_with_their_machine(tmp_path: Path) -> None:
    """Guards recordings: what was returned, with which controls, on which device, driver, versions and commit."""
    kept = finished("L8").stage.kept["mixed"]
    assert Shelf(tmp_path, recorded=True).put("L8", "mixed", kept).stat().st_size < 500_000
    back = Shelf(tmp_path, recorded=True).get("L8", "mixed")
    assert json.dumps(back.results) == json.dumps(kept.results) and back.values == kept.values
    assert back.machine.keys() >= {"device", "driver", "versions", "commit", "date"}
    assert back.origin.kind == "Recorded" and back.machine["device"] in back.origin.detail
    assert Shelf(tmp_path, recorded=True).get("L8", "absent") is None


def test_recordings_are_made_by_one_command(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    """Guards ``python -m lessons.record``: every experiment of a lesson gets a file; an unknown id gets one line."""
    stage = HeadlessStage(lesson("L8"), kept=finished("L8").stage.kept)
    names = {path.name for path in record.record(lesson("L8"), stage, Shelf(tmp_path, recorded=True))}
    assert names == {"L8.equal.json.gz", "L8.mixed.json.gz"}
    assert record.main(["L99"]) == 2 and "L99" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("source", "word"),
    [
        ("def f(x):\n    return x +", "line 2: SyntaxError"),
        ("g = 1", "defines no function f"),
        ("def f(x):\n    raise KeyError('a')", "line 2: KeyError"),
        ("def f(x):\n    return len(' ' * 10**11)", "MemoryError"),
        ("def f(x):\n    import lessons", "ModuleNotFoundError"),
        ("def f(x):\n    return object()", "not JSON serializable"),
        ("import os\ndef f(x):\n    os._exit(3)", "status 3"),
        ("def f(x):\n    open('big', 'wb').write(b'0' * 2**23)", "OSError"),
    ],
)
def test_a_learners_mistake_is_said_in_one_line(source: str, word: str) -> None:
    """Guards the child process: whatever it does, the page gets one line, and nothing of ours is within its reach."""
    outputs, why = sandbox.run(source, "f", [(1,)])
    assert not outputs and word in why.said({}), why.said({})


def test_the_child_gets_arrays_and_nothing_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards what the child is given: arrays arrive and return; a secret of the server does not."""
    monkeypatch.setenv("SECRET_OF_THE_SERVER", "1")
    source = "import os, numpy as np\ndef f(x):\n    print('noise')\n    return x * 2, sorted(os.environ)"
    (answer,), why = sandbox.run(source, "f", [(np.arange(3.0),)])
    assert why is None and "SECRET_OF_THE_SERVER" not in answer[1] and str(os.getpid()) not in answer[1]
    assert answer[0].tolist() == [0.0, 2.0, 4.0]


def test_a_sentence_is_said_in_its_language_with_the_same_numbers() -> None:
    """Guards twins: fields are filled in both languages, also by sentences; braces without values stay."""
    inner, outer = say("in", "static"), say("out", "{name}: {x:.1f}x", name=say("in", "static"), x=2)
    twin = pieces("%% in\n静态\n\n%% out\n{x:.1f}x 来自 {name}\n")
    assert outer.said({}) == "static: 2.0x" and outer.said(twin) == "2.0x 来自 静态"
    assert say("math", "$E[\\text{max}]$").said({}) == "$E[\\text{max}]$" and inner.said(twin) == "静态"
    with pytest.raises(ValueError, match="twice"):
        pieces("%% a\n1\n%% a\n2\n")


@pytest.mark.parametrize(
    ("form", "bad", "word"),
    [
        (kit.Number(0, 4, 1, start=0), 9, "0 to 4"),
        (kit.Number(0, 4, 1, start=0), "x", "a number"),
        (kit.Choice({"a": say("a", "A")}), "b", "one of a"),
        (kit.Choices({"a": say("a", "A"), "b": say("b", "B")}, 2), ["a", "a"], "2 of a, b"),
        (kit.Code("f", "", ()), " ", "defines f"),
    ],
)
def test_answers_that_are_none_are_refused(form: object, bad: object, word: str) -> None:
    """Guards graders: what is no answer is no try, and the allowed values are named."""
    with pytest.raises(ValueError, match=word):
        form.clean(bad)


def test_misses_are_the_same_in_both_directions() -> None:
    """Guards scoring by log error."""
    assert kit.miss(1.0, 2.0).factor == kit.miss(4.0, 2.0).factor == pytest.approx(2.0)
    assert kit.miss(0.0, 2.0).factor == float("inf")
