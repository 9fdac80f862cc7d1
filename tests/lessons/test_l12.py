"""The lesson on KV quantisation: graders, all branches of the speed axis, and what it leaves in the ledger."""

import numpy as np
import pytest
from lesson_tests import again, finished, verdict_of

from engine.workload.kv_sweep import fitted
from lessons.book import lesson
from lessons.headless import Finished, HeadlessStage, run_through
from lessons.kit.items import Exercise, Note, Question, Reconciled
from lessons.kit.progress import Entry, Progress

BODY = """import numpy as np


def through_int8(x):
    top = np.maximum(np.abs(x).max(axis=1, keepdims=True), 1e-6)
    scale = top / 127
    stored = np.round(x / scale).astype(np.int8)
    restored = stored * scale
    return stored, scale[:, 0], restored
"""
HALF = BODY.replace("top / 127", "np.maximum((top / 127).astype(np.float16), 2.0**-24).astype(np.float32)").replace(
    "np.round(x / scale)", "np.clip(np.rint(x / scale), -127, 127)"
)
WRONG = {
    "code.tensor": BODY.replace(
        "np.abs(x).max(axis=1, keepdims=True), 1e-6", "np.abs(x).max(), np.full((len(x), 1), 1e-6)"
    ),
    "code.truncated": BODY.replace("np.round(x / scale)", "(x / scale)"),
    "code.zero": BODY.replace(", 1e-6", ", 0"),
    "code.largest": BODY.replace("127", "128"),
    "code.forgot": BODY.replace("stored * scale", "stored.astype(np.float32)"),
    "code.int8": BODY.replace(".astype(np.int8)", ""),
    "code.three": BODY.replace("return stored, scale[:, 0], restored", "return restored"),
}
HEADS, DIM, LAYERS = 8, 128, 32


@pytest.mark.parametrize("answer", [HALF, BODY.replace("scale[:, 0]", "scale")], ids=["fp16", "column"])
def test_another_way_to_write_it_passes(answer: str) -> None:
    """Guards the grader against refusing fp16 scales, which the engine uses, and scales as a column."""
    assert verdict_of(finished("L12"), "code", answer).passed


@pytest.mark.parametrize("word", WRONG)
def test_plausible_functions_fail_with_their_own_word(word: str) -> None:
    """Guards the help: each of these mistakes is one a learner makes."""
    verdict = verdict_of(finished("L12"), "code", WRONG[word])
    assert not verdict.passed and verdict.why.id == word


def test_128_fails_with_a_clip_too() -> None:
    """Guards the bound: 128 with a clip is one scale off at the largest number, not half of one."""
    clipped = BODY.replace("top / 127", "top / 128").replace(
        "np.round(x / scale)", "np.clip(np.round(x / scale), -128, 127)"
    )
    assert verdict_of(finished("L12"), "code", clipped).why.id == "code.largest"


def test_the_pool_counts_its_scales() -> None:
    """Guards the numeric task: each slip is told apart, also those that differ by a fifth of a percent."""
    run = finished("L12")
    (task,) = [item for item in run.of(Exercise) if item.id == "pool"]
    memory = task.task.values["pool"] * 2**30
    tokens = {
        "pool.right": 2 * LAYERS * HEADS * (DIM + 2),
        "pool.scale": 2 * LAYERS * HEADS * DIM,
        "pool.one_scale": 2 * LAYERS * (HEADS * DIM + 2),
        "pool.keys": LAYERS * HEADS * (DIM + 2),
        "pool.wide_scale": 2 * LAYERS * HEADS * (DIM + 4),
        "pool.plain": 4 * LAYERS * HEADS * DIM,
        "pool.layer": 2 * HEADS * (DIM + 2),
    }
    for word, each in tokens.items():
        verdict = verdict_of(run, "pool", memory // each)
        assert verdict.why.id == word and verdict.passed == (word == "pool.right")
    assert verdict_of(run, "pool", task.task.values["pool"] * 10**9 // tokens["pool.right"]).why.id == "pool.gib"
    assert verdict_of(run, "pool", 12345).why.id == "pool.wrong"


def swept(share: float, base: float = 0.35, slope: float = 3e-5, backend: str = "triton", reach: int = 65_536) -> dict:
    """Lines as a GPU with such coefficients would have given them; ``share``: slope of int8 over that of bf16."""
    tokens = [reach / 64, reach / 16, reach / 4, reach]
    lines = {}
    for name, kv_bytes, part in (("bf16", 114_688, 1.0), ("int8", 58_240, share)):
        ms = [base + slope * part * each for each in tokens]
        fit = dict(zip(("base_ms", "per_token_ms"), fitted(tokens, ms)))
        lines[name] = {"kv_bytes": kv_bytes, "tokens": tokens, "ms": ms, "floor_ms": [0.8 * each for each in ms]} | fit
    facts = {"backend": backend, "rows": 8, "weight_bytes": 1.19e9, "bandwidth": 4.3e12, "plain": "bf16"}
    return facts | {"lines": lines}


def with_speed(results: dict, **predictions: object) -> Finished:
    """The lesson run on a sweep that is given."""
    kept = dict(finished("L12").stage.kept)
    speed = kept["speed"]
    return again("L12", kept | {"speed": type(speed)(results, speed.values, speed.machine)}, **predictions)


BRANCHES = {
    "speed.note": (swept(0.5), "early"),
    "speed.reference": (swept(1.4, backend="reference"), "never"),
    "speed.light": (swept(0.5, reach=2_048), "early"),
    "speed.overhead": (swept(1.0), "never"),
}


@pytest.mark.parametrize("word", BRANCHES)
def test_each_regime_says_what_it_is(word: str) -> None:
    """Guards the null results: no kernel, too little context and too many launches are told apart, and from a gain."""
    results, place = BRANCHES[word]
    if word == "speed.overhead":
        for line in results["lines"].values():
            line["floor_ms"] = [0.1 * each for each in line["ms"]]
    run = with_speed(results, even="late", gain=1.3)
    said = {note.text.id for note in run.of(Note)} & BRANCHES.keys()
    assert said == {word}
    (asked,) = [question for question in run.of(Question) if question.id == "even"]
    assert run.stage.answer(asked).observed == place
    assert run.stage.progress.ledger["kv_break_even_tokens"].value > 0


def test_a_gain_is_measured_beside_its_bytes() -> None:
    """Guards the reconciliation: theory counts weights and KV, and the ledger keeps the measured break-even."""
    run = with_speed(swept(0.5))
    rows = next(each for each in run.of(Reconciled) if each.id == "speed").rows
    tokens = 65_536
    by_bytes = (1.19e9 + tokens * 114_688) / (1.19e9 + tokens * 58_240)
    assert rows[0].theory == pytest.approx(by_bytes) and 1.6 < rows[0].observed < 1.8
    even = 0.05 * 0.35 / (3e-5 * (1 - 1.05 * 0.5))
    assert rows[1].observed == pytest.approx(even, rel=1e-6)
    ledger = run.stage.progress.ledger
    assert ledger["kv_break_even_tokens"].value == pytest.approx(even, rel=1e-6)
    assert ledger["kv_ratio"].value == pytest.approx(66 / 128)


@pytest.mark.parametrize(("kv_bytes", "used"), [(114_688, True), (8_192, False)], ids=["same model", "another"])
def test_the_ledger_predicts_where_it_fits(kv_bytes: int, used: bool) -> None:
    """Guards the recall: coefficients of the same model on the same device are used, others are not."""
    kept, progress = dict(finished("L12").stage.kept), Progress(None)
    speed = kept["speed"]
    kept["speed"] = type(speed)(swept(0.5), speed.values, speed.machine)
    numbers = {"step_base_ms": 2.0, "step_per_row_us": 10.0, "step_per_token_ns": 30.0, "kv_bytes_per_token": kv_bytes}
    for name, value in numbers.items():
        progress.enter(name, Entry(float(value), "", "", speed.machine["device"], "", "L3"))
    found = lesson("L12")
    run = run_through(found, HeadlessStage(found, kept=kept, progress=progress))
    rows = next(each for each in run.of(Reconciled) if each.id == "speed").rows
    start, context = 2.0 + 8 * 0.01, 3e-5 * 65_536
    from_ledger = (start + context) / (start + context * 58_240 / 114_688)
    assert (rows[0].theory == pytest.approx(from_ledger)) == used


def test_keys_of_the_sample_are_real() -> None:
    """Guards the hidden cases: the first array is the model's own keys, and zeros and a huge number are among them."""
    run = finished("L12")
    (task,) = [item for item in run.of(Exercise) if item.id == "code"]
    arrays = [case[0] for case in task.form.cases]
    assert np.allclose(arrays[0], run.stage.kept["grain"].results["sample"], rtol=1e-6)
    assert any((np.abs(array).max(axis=1) == 0).any() for array in arrays)
    assert any((np.abs(array).max() > 50 * np.median(np.abs(array))) for array in arrays)
