"""Every lesson from its first cell to its last on this machine, and what each must have."""

import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from lesson_tests import ROOT, finished, verdict_of

from lessons.book import Lesson, lesson, written
from lessons.export import notebook
from lessons.headless import HeadlessStage
from lessons.kit.forms import Code
from lessons.kit.items import Exercise, Experiment, Figure, Question, Reconciled, Takeaway
from lessons.kit.progress import Progress
from lessons.kit.say import twin
from lessons.report import Report

LESSONS = pytest.mark.parametrize("found", written(), ids=lambda each: each.stem)


@LESSONS
def test_a_lesson_keeps_the_cell_contract(found: Lesson) -> None:
    """Guards the pattern: it predicts, runs, shows, reconciles, sets an exercise and ends with a takeaway."""
    run = finished(found.id)
    for kind in (Question, Experiment, Figure, Reconciled, Exercise):
        assert run.of(kind), kind
    assert isinstance(run.items[-1], Takeaway) and run.stage.progress.finished(found.id)
    assert set(run.items[-1].carried) <= run.stage.progress.ledger.keys()


@LESSONS
def test_questions_come_before_what_they_ask_for(found: Lesson) -> None:
    """Guards the lock: what settles a prediction is computed in a later cell, and it is settled in the end."""
    run = finished(found.id)
    assert run.items.index(run.of(Question)[0]) < run.items.index(run.of(Reconciled)[0])
    for question in run.of(Question):
        assert run.stage.answer(question).observed is not None, question.id


@LESSONS
def test_every_figure_has_words_and_a_table_in_both_languages(found: Lesson) -> None:
    """Guards readers without the picture: a sentence, and columns of one length."""
    for item in finished(found.id).of(Figure):
        for lang in ("en", "zh"):
            words = {**item.picture.words, **twin(f"figures/{item.picture.name}", lang)}
            drawn = item.picture.draw(item.data, provenance=item.origin.kind, theme="dark", words=words, **item.options)
            assert drawn.layout.title.text and drawn.to_json()
            assert item.picture.summary(item.data, words=words, **item.options)
            columns = item.picture.table(item.data, words=words, **item.options)
            assert columns and len({len(column) for column in columns.values()}) == 1


@LESSONS
def test_controls_are_few(found: Lesson) -> None:
    """Guards against an experiment with more than three knobs in sight, or a default that is not on offer."""
    for item in finished(found.id).of(Experiment):
        assert len([control for control in item.controls if not control.aside]) <= 3
        for control in item.controls:
            assert control.default in control.options
            assert set(control.names) <= set(control.options)


@LESSONS
def test_every_solution_passes_and_nothing_fails(found: Lesson) -> None:
    """Guards code exercises: the solution passes its own grader, the starter does not."""
    for item in finished(found.id).of(Exercise):
        if isinstance(item.form, Code):
            assert item.solution, item.id
            assert verdict_of(finished(found.id), item.id, item.solution).passed
            assert not verdict_of(finished(found.id), item.id, item.form.starter).passed


@LESSONS
@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_notebook_is_valid(found: Lesson, lang: str) -> None:
    """Guards the download: nbformat accepts it, and it is the same each time."""
    text = notebook(found, lang)
    document = nbformat.reads(text, as_version=4)
    nbformat.validate(document)
    assert text == notebook(found, lang) and len(document.cells) == len(found.cells) + 1
    assert "REPOSITORY" in document.cells[0].source


def test_a_notebook_runs_on_its_own(tmp_path: Path) -> None:
    """Guards the download: its code runs cell by cell in a fresh process, with nobody at the keyboard."""
    found = lesson("L8")
    document = nbformat.reads(notebook(found, "zh"), as_version=4)
    sources = [cell.source for cell in document.cells if cell.cell_type == "code"]
    script = tmp_path / "cells.py"
    script.write_text("\n\n".join([*sources[:2], "kit.small()", *sources[2:]]), encoding="utf-8")
    environment = {"XDG_DATA_HOME": str(tmp_path), "HOME": str(tmp_path), "OMP_NUM_THREADS": "1"}
    options = {"cwd": ROOT, "env": environment, "capture_output": True, "stdin": subprocess.DEVNULL}
    done = subprocess.run([sys.executable, str(script)], **options)
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    assert Progress(tmp_path / "flightdeck" / "progress.json").finished(found.id)


@LESSONS
def test_the_report_can_be_graded_without_running_anything(found: Lesson) -> None:
    """Guards the teacher: predictions, exercises and device in one file that asks no other host for anything."""
    run = finished(found.id)
    stage: HeadlessStage = run.stage
    stage.language = "zh"
    html = Report(found, stage, run.items, stage.kept).html()
    stage.language = "en"
    assert "http" not in html and "<script" not in html and "src=" not in html and "url(" not in html
    assert next(iter(stage.kept.values())).machine["device"] in html
    assert html.count("<pre>") == len([item for item in run.of(Exercise) if stage.progress.attempt(found.id, item.id)])
