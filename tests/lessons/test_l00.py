"""The lesson that measures the device: the ledger it fills, its graders, and the branch without NVML."""

import pytest
from lesson_tests import again, finished, verdict_of

from lessons.kit.items import Note


def ridge() -> float:
    """Of the machine that ran the lesson."""
    ledger = finished("L0").stage.progress.ledger
    return ledger["matmul_tflop_s"].value * 1e3 / ledger["bandwidth_gb_s"].value


def test_the_ledger_holds_what_later_lessons_recall() -> None:
    """Guards names and units: bandwidth, peak by format, launches."""
    ledger = finished("L0").stage.progress.ledger
    units = {name: ledger[name].unit for name in ("bandwidth_gb_s", "matmul_tflop_s", "launch_us", "launch_eager_us")}
    assert units == {
        "bandwidth_gb_s": "GB/s",
        "matmul_tflop_s": "TFLOP/s",
        "launch_us": "µs",
        "launch_eager_us": "µs",
    }
    assert ledger["matmul_tflop_s_fp32"].value > 0 and all(ledger[name].value > 0 for name in units)


@pytest.mark.parametrize(
    ("factor", "word"),
    [(1.0, "ridge.right"), (1.08, "ridge.right"), (2.0, "ridge.double"), (0.5, "ridge.half"), (1e-3, "ridge.tera")],
)
def test_the_ridge_is_graded_within_a_tenth(factor: float, word: str) -> None:
    """Guards tolerance and help: usual slips are factors."""
    verdict = verdict_of(finished("L0"), "ridge", ridge() * factor)
    assert verdict.why.id == word and verdict.passed == (word == "ridge.right")


def test_bytes_per_operation_is_the_inverse() -> None:
    """Guards the most common slip of all."""
    assert verdict_of(finished("L0"), "ridge", 1 / ridge()).why.id == "ridge.inverse"


def test_only_running_is_known_from_utilisation() -> None:
    """Guards the choice: one right answer, and each wrong one has a word."""
    run = finished("L0")
    assert verdict_of(run, "meaning", "running").passed
    wrong = ("full", "bandwidth", "cores", "memory", "efficient")
    assert not any(verdict_of(run, "meaning", key).passed for key in wrong)


def test_without_nvml_nothing_is_claimed() -> None:
    """Guards the guard: a missing figure is said to be missing, never drawn as 0."""
    kept = dict(finished("L0").stage.kept)
    loop = kept["loop"]
    unknown = kept | {"loop": type(loop)(loop.results | {"utilisation": None}, loop.values, loop.machine)}
    notes = {note.text.id for note in again("L0", unknown).of(Note)}
    assert "busy.guard" in notes and "busy.note" not in notes
