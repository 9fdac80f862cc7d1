"""The lesson on prefill, decode and the KV cache: graders, the theory, and the branch for overhead."""

import pytest
from lesson_tests import again, finished, verdict_of

from lessons.kit.items import Note, Reconciled

HEAD = "def tokens_computed(prompt, output, cached):\n"
WRONG = {
    "code.last": "    return prompt + output if cached else sum(range(prompt, prompt + output))\n",
    "code.prompt": "    return output if cached else sum(range(prompt, prompt + output))\n",
    "code.growing": "    return prompt + output - 1 if cached else prompt * output\n",
    "code.extra": "    return prompt + output - 1 if cached else sum(range(prompt, prompt + output + 1))\n",
    "code.same": "    return prompt + output - 1\n",
    "code.type": "    pass\n",
}


def test_the_right_count_passes() -> None:
    """Guards the grader against refusing the closed form."""
    source = "    return prompt + output - 1 if cached else output * prompt + output * (output - 1) // 2\n"
    assert verdict_of(finished("L2"), "code", HEAD + source).passed


@pytest.mark.parametrize("word", WRONG)
def test_plausible_counts_fail_with_their_own_word(word: str) -> None:
    """Guards the help: each of these mistakes is one a learner makes."""
    verdict = verdict_of(finished("L2"), "code", HEAD + WRONG[word])
    assert not verdict.passed and verdict.why.id == word


def test_bytes_of_a_token_follow_the_grouped_heads() -> None:
    """Guards the distractors: the hidden size, the query heads, one tensor, one layer, numbers for bytes."""
    run = finished("L2")
    model = run.stage.kept["both"].results["model"]
    assert verdict_of(run, "bytes", model["kv_bytes"]).passed
    slips = {
        "bytes.hidden": 2 * model["layers"] * model["hidden"] * model["item_bytes"],
        "bytes.half": model["kv_bytes"] // 2,
        "bytes.layer": model["kv_bytes"] // model["layers"],
        "bytes.numbers": model["kv_bytes"] // model["item_bytes"],
        "bytes.wrong": 12345,
    }
    for word, answer in slips.items():
        verdict = verdict_of(run, "bytes", answer)
        assert not verdict.passed and verdict.why.id == word


def test_theory_counts_tokens() -> None:
    """Guards the reconciliation: 64 + 65 + ... over 64 + 15 at the small sizes, beside the prediction."""
    (row,) = next(each for each in finished("L2").of(Reconciled) if each.id == "cache").rows
    assert row.theory == pytest.approx(sum(64 + place for place in range(16)) / 79)
    assert row.observed > 1


def test_overhead_is_said_where_it_binds() -> None:
    """Guards the guard: steps far above their bytes are not explained by them, and the other way round."""
    kept = dict(finished("L2").stage.kept)
    swept = kept["contexts"]
    for factor, says in ((10.0, True), (1.2, False)):
        entries = [entry | {"ms_per_step": factor * entry["floor_ms"]} for entry in swept.results["entries"]]
        changed = kept | {"contexts": type(swept)(swept.results | {"entries": entries}, swept.values, swept.machine)}
        assert ("context.guard" in {note.text.id for note in again("L2", changed).of(Note)}) == says


def test_the_ledger_is_filled() -> None:
    """Guards what later lessons recall."""
    ledger = finished("L2").stage.progress.ledger
    assert ledger["kv_bytes_per_token"].value == finished("L2").stage.kept["both"].results["model"]["kv_bytes"]
    assert ledger["prefill_tok_s"].value > 0 and ledger["decode_step_ms"].value > 0
