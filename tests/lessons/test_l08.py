"""L8: its graders, its null result, and that each factor stands beside the prediction of the learner."""

import pytest
from lesson_tests import again, finished, verdict_of

from lessons.book import lesson
from lessons.headless import HeadlessStage
from lessons.kit.items import Exercise, Experiment, Note, Reconciled
from lessons.kit.perform import perform, smallest

CODE = "def bound(lengths, rows):\n    groups = [lengths[at : at + rows] for at in range(0, len(lengths), rows)]\n    "


def _lengths() -> list[int]:
    runs = finished("L8").stage.kept["mixed"].results["schedulers"]
    return [each["output_tokens"] for each in sorted(runs["static"]["requests"], key=lambda each: each["id"])]


def test_the_sample_is_graded_on_the_own_race() -> None:
    """Guards exercise 1: the right number passes; five plausible slips each get a word of their own."""
    sample = _lengths()[:8]
    first, second = max(sample[:4]), max(sample[4:])
    total, right = sum(sample), 4 * (max(sample[:4]) + max(sample[4:])) / sum(sample)
    assert verdict_of(finished("L8"), "sample", round(right, 2)).passed
    slips = [8 * max(first, second) / total, 1 / right, (first + second) / total, right - 1, right * 1.3]
    said = [verdict_of(finished("L8"), "sample", slip) for slip in slips]
    assert not any(verdict.passed for verdict in said)
    assert len({verdict.why.id for verdict in said}) == len(slips)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("return max(lengths) * len(lengths) / sum(lengths)", "code.global"),
        ("return sum(len(group) * max(group) for group in groups) / sum(lengths)", "code.last"),
        ("return sum(lengths) / (rows * sum(map(max, groups)))", "code.inverse"),
        ("return sum(map(max, groups)) / sum(lengths)", "code.rows"),
        ("return bound_of(sorted(lengths, reverse=True), rows)", "code.sorted"),
        ("return None", "code.type"),
        ("return 1 / 0", "kit.raised"),
        ("while True: pass", "kit.too_slow"),
    ],
)
def test_wrong_code_gets_a_helpful_word(body: str, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards exercise 2: plausible mistakes fail, each with a word that names it."""
    monkeypatch.setattr("lessons.kit.sandbox.SECONDS", 1.0)
    helper = "def bound_of(l, r):\n    return r * sum(max(l[a : a + r]) for a in range(0, len(l), r)) / sum(l)\n\n\n"
    verdict = verdict_of(finished("L8"), "code", helper + CODE + body + "\n")
    assert not verdict.passed and verdict.why.id == why


def test_choices_are_graded_with_a_word_for_each() -> None:
    """Guards exercises 3 and 4: one right answer, and every wrong one says why."""
    run = finished("L8")
    (drain,) = [item for item in run.of(Exercise) if item.id == "drain_why"]
    said = {key: verdict_of(run, "drain_why", key) for key in drain.form.options}
    assert [key for key, verdict in said.items() if verdict.passed] == ["queue"]
    assert len({verdict.why.id for verdict in said.values()}) == len(said) >= 6
    assert verdict_of(run, "facts", ["groups", "drain"]).passed
    for wrong in ("clock", "vocabulary", "mean", "sampling"):
        assert verdict_of(run, "facts", ["groups", wrong]).why.id == f"facts.no_{wrong}"


def test_equal_lengths_teach_the_null_result() -> None:
    """Guards against a fake win (acceptance test 8): on equal lengths the lesson says that there is nothing to gain."""
    found = lesson("L8")
    stage = HeadlessStage(found)
    (mixed,) = [item for item in finished("L8").of(Experiment) if item.id == "mixed"]
    kept = dict(finished("L8").stage.kept)
    kept["mixed"] = perform(stage, mixed, smallest(mixed) | {"spread": 0.0}, lambda what, done: None)
    said = {note.text.id for note in again("L8", kept).of(Note)}
    assert {"mixed.guard"} <= said and not {"gain.note"} & said
    assert {"gain.null", "gain.disturbed"} & said


def test_each_factor_stands_beside_its_prediction() -> None:
    """Guards the decomposition: five factors whose product is the gain, and what the learner said of three of them."""
    run = again("L8", finished("L8").stage.kept, drain=0.9, step_shape=1.1, prefill=0.8)
    (table,) = [item for item in run.of(Reconciled) if item.id == "factors"]
    product = 1.0
    for row in table.rows:
        product *= row.observed
    assert product == pytest.approx(run.stage.kept["mixed"].results["gain"])
    assert [row.question for row in table.rows if row.question] == ["drain", "step_shape", "prefill"]
    assert run.stage.progress.answer("L8", "drain").observed == pytest.approx(table.rows[1].observed)
