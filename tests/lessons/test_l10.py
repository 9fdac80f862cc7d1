"""The lesson on capacity policies and preemption: graders, the null results, and the live-lock of the sketch."""

import pytest
from lesson_tests import again, finished, verdict_of

from engine.workload.toy_preemption import careful, play, published
from lessons.kit.items import Exercise, Note, Reconciled

WAITING = "    if asker not in [who for who, _ in running]:\n        return []\n"
NEWEST = (
    "    chosen = []\n    for who, blocks in {order}:\n        if free >= need or asker in chosen:\n            break\n"
)
TAKE = "        chosen.append(who)\n        free += blocks\n    return chosen\n"
RIGHT = WAITING + NEWEST.format(order="running[::-1]") + TAKE
WRONG = {
    "code.newcomer": NEWEST.format(order="running[::-1]") + TAKE,
    "code.oldest": WAITING + NEWEST.format(order="running") + TAKE,
    "code.few": WAITING + "    return []\n",
    "code.many": WAITING + "    return [who for who, _ in running[::-1]]\n",
    "code.itself": WAITING + NEWEST.format(order="[pair for pair in running[::-1] if pair[0] != asker]") + TAKE,
    "code.type": "    return None\n",
}
LEAST = "    ranked = sorted(running[::-1], key=lambda pair: pair[1])\n"


def _source(body: str) -> str:
    """The choice, and the lesson's own engine around it."""
    (task,) = [item for item in finished("L10").of(Exercise) if item.id == "code"]
    play_of_lesson = task.form.starter[task.form.starter.index("def play") :]
    return f"def victims(running, asker, need, free):\n{body}\n\n{play_of_lesson}"


def test_another_right_choice_passes() -> None:
    """Guards the grader against demanding one way to write it."""
    assert verdict_of(finished("L10"), "code", _source(RIGHT)).passed


@pytest.mark.parametrize("word", WRONG)
def test_plausible_choices_fail_with_their_own_word(word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards the help: the oldest, for a waiting one, too few, too many, sparing oneself."""
    monkeypatch.setattr("lessons.kit.sandbox.SECONDS", 5.0)
    verdict = verdict_of(finished("L10"), "code", _source(WRONG[word]))
    assert not verdict.passed and verdict.why.id == word


def test_the_smallest_first_is_not_the_newest_first() -> None:
    """Guards the order: another sensible rule is refused, because the task names one."""
    body = WAITING + LEAST + NEWEST.format(order="ranked") + TAKE
    verdict = verdict_of(finished("L10"), "code", _source(body))
    assert not verdict.passed and verdict.why.id in ("code.order", "code.oldest", "code.itself")


def test_the_three_defects() -> None:
    """Guards the choices: exactly three pass, and each of the four others has a word of its own."""
    run = finished("L10")
    assert verdict_of(run, "defects", ["new", "raise", "order"]).passed
    for wrong in ("loop", "empty", "all", "front"):
        verdict = verdict_of(run, "defects", ["new", "order", wrong])
        assert not verdict.passed and verdict.why.id == f"defects.no_{wrong}"


def test_the_sketch_never_ends_and_the_mended_toy_does() -> None:
    """Guards the claim itself: the published rule live-locks on the toy however long it runs."""
    sizes = [(3, 5), (3, 5), (2, 4)]
    locked, ended = (play(rule, 5, sizes, 500) for rule in (published, careful))
    assert locked["done"] == 0 and locked["preemptions"] > 400
    assert ended["done"] == 3 and len(ended["used"]) < 20
    assert play(published, 2, [(3, 3)], 5)["failed"]
    for toy in (locked, ended):
        assert max(toy["used"]) <= toy["pool"]


def test_without_pressure_both_policies_take_the_same_steps() -> None:
    """Guards the null result at 0.7, and that guarantees never preempt."""
    entries = {
        (each["pressure"], each["policy"]): each for each in finished("L10").stage.kept["policies"].results["entries"]
    }
    calm = [entries[0.7, policy] for policy in ("max-utilization", "guaranteed-no-evict")]
    assert calm[0]["steps"] == calm[1]["steps"] and not calm[0]["preemptions"]
    pressed = [entries[1.5, policy] for policy in ("max-utilization", "guaranteed-no-evict")]
    assert pressed[0]["preemptions"] and not pressed[1]["preemptions"]
    assert pressed[0]["steps"] < pressed[1]["steps"] and pressed[0]["useful"] == pressed[1]["useful"]


def test_a_preemption_changes_no_token() -> None:
    """Guards the answer to the second question, on the real engine in fp32."""
    kept = finished("L10").stage.kept
    assert kept["look"].results["identical"] and kept["policies"].results["identical"]
    assert kept["look"].results["runs"]["chosen"]["preemptions"] > kept["look"].results["runs"]["more"]["preemptions"]
    notes = {note.text.id for note in finished("L10").of(Note)}
    assert "same.identical" in notes and "look.guard" not in notes


def _noted(**changes: float) -> set[str]:
    """The notes of the lesson when the numbers at pressure 1.5 of MAX_UTILIZATION are others."""
    kept = dict(finished("L10").stage.kept)
    old = kept["policies"]
    entries = [
        each
        | (
            changes
            if (each["pressure"], each["policy"]) == (1.5, "max-utilization")
            else {"tok_s": 100.0, "predicted_tok_s": 100.0}
        )
        for each in old.results["entries"]
    ]
    changed = kept | {"policies": type(old)(old.results | {"entries": entries}, old.values, old.machine)}
    return {note.text.id for note in again("L10", changed).of(Note)}


@pytest.mark.parametrize(
    ("speed", "model", "word"),
    [(130, 130, "gain.pays"), (101, 101, "gain.even"), (70, 70, "gain.loses"), (150, 100, "gain.disturbed")],
)
def test_each_outcome_has_its_explanation(speed: float, model: float, word: str) -> None:
    """Guards honesty: whichever policy wins on this machine, the lesson says so and why."""
    assert word in _noted(tok_s=float(speed), predicted_tok_s=float(model))


def test_no_preemption_is_said() -> None:
    """Guards the regime guards: without a preemption nothing may be priced."""
    assert "policies.guard" in _noted(tok_s=100.0, predicted_tok_s=100.0, preemptions=0, recomputed=0)
    kept = dict(finished("L10").stage.kept)
    old = kept["look"]
    calm = old.results["runs"]["roomy"]
    runs = old.results["runs"] | {"chosen": calm, "more": calm}
    changed = kept | {"look": type(old)(old.results | {"runs": runs}, old.values, old.machine)}
    notes = {note.text.id for note in again("L10", changed).of(Note)}
    assert "look.guard" in notes and "gap.price" not in notes


def test_predictions_meet_what_was_measured() -> None:
    """Guards the reconciliations and the ledger."""
    run = again("L10", finished("L10").stage.kept, gain=1.2, twice=10, gap=5, remain=50)
    rows = {row.label.id: row for each in run.of(Reconciled) for row in each.rows}
    assert {row.question for row in rows.values() if row.question} == {"gain", "twice", "gap", "remain"}
    assert run.stage.progress.ledger["recompute_share"].value == rows["twice.row"].observed
    assert rows["gap.row"].theory >= 2
