"""The roofline lesson: graders, the overhead-bound branch, and what it leaves in the ledger."""

import pytest
from lesson_tests import again, finished, verdict_of

from lessons.figures.ceilings import binds
from lessons.kit.items import Note, Reconciled

RIGHT = """def binds(flops, bytes, bandwidth, peak, launch_s):
    return max([(launch_s, "launch"), (bytes / bandwidth, "bandwidth"), (flops / peak, "compute")])[1]
"""
WRONG = {
    "code.word": 'def binds(f, b, w, p, s):\n    return "memory"\n',
    "code.launch": 'def binds(f, b, w, p, s):\n    return "compute" if f / p > b / w else "bandwidth"\n',
    "code.floor": "def binds(f, b, w, p, s):\n"
    '    return "launch" if b / w < s else "compute" if f / p > b / w else "bandwidth"\n',
    "code.swapped": "def binds(f, b, w, p, s):\n"
    '    t = {"launch": s, "compute": b / w, "bandwidth": f / p}\n    return max(t, key=t.get)\n',
    "code.wrong": 'def binds(f, b, w, p, s):\n    return "compute" if f > b else "launch"\n',
}


def test_the_right_function_passes() -> None:
    """Guards the grader against refusing another way to write it."""
    assert verdict_of(finished("L3"), "code", RIGHT).passed


@pytest.mark.parametrize("word", WRONG)
def test_plausible_functions_fail_with_their_own_word(word: str) -> None:
    """Guards the help: each of these mistakes is one a learner makes."""
    verdict = verdict_of(finished("L3"), "code", WRONG[word])
    assert not verdict.passed and verdict.why.id == word


def test_six_operations_are_sorted() -> None:
    """Guards the choices: only the two that use each byte many times pass."""
    run = finished("L3")
    assert verdict_of(run, "six", ["product_many", "scores"]).passed
    for pick in ("add_one", "norm", "copy", "product_1"):
        verdict = verdict_of(run, "six", [pick, "scores"])
        assert not verdict.passed and verdict.why.id == f"six.no_{pick}"


def test_overhead_is_taught_where_it_binds() -> None:
    """Guards the regime guard: a step far above its bytes must not be explained by them, and the other way round."""
    kept = dict(finished("L3").stage.kept)
    for factor, says in ((10.0, True), (1.2, False)):
        slow = kept["steps"]
        entries = [entry | {"ms_per_step": factor * entry["floor_ms"]} for entry in slow.results["entries"]]
        changed = kept | {"steps": type(slow)(slow.results | {"entries": entries}, slow.values, slow.machine)}
        notes = {note.text.id for note in again("L3", changed).of(Note)}
        assert ("step.guard" in notes) == says


def test_theory_stands_beside_the_prediction() -> None:
    """Guards the reconciliation: the doubling of the theory is ridge times bytes of a number."""
    run = again("L3", finished("L3").stage.kept, double=40)
    (row,) = next(each for each in run.of(Reconciled) if each.id == "double").rows
    ledger = run.stage.progress.ledger
    assert row.theory == pytest.approx(ledger["ridge_flop_per_byte"].value * 4)
    assert {"step_base_ms", "step_per_row_us", "step_per_token_ns"} <= ledger.keys()


def test_a_tiny_call_is_bound_by_its_launch() -> None:
    """Guards the model itself at its three corners."""
    machine = {"bandwidth": 1e12, "flops": 1e14, "launch_s": 2e-6}
    assert binds({"flops": 1, "bytes": 8}, machine) == "launch"
    assert binds({"flops": 1, "bytes": 1e9}, machine) == "bandwidth"
    assert binds({"flops": 1e13, "bytes": 1e9}, machine) == "compute"
