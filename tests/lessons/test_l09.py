"""The scheduler lesson: the learner's scheduler against the engine's own steps, and the guard for another scarcity."""

import pytest
from lesson_tests import again, finished, verdict_of

from engine.workload.watched import admitted_by_rule
from lessons.kit.items import Note

HEAD = "def admit(waiting, rows, blocks, tokens, block_size, watermark, anything_runs):\n    entered = []\n"
LOOP = """    for request, length in waiting:
        need = {need}
        margin = {margin}
        if {stop}:
            {leave}
        entered.append(request)
        rows, blocks, tokens, anything_runs = rows - 1, blocks - need, tokens - length, True
    return entered
"""
RIGHT = {
    "need": "-(-length // block_size)",
    "margin": "watermark if anything_runs else 0",
    "stop": "rows < 1 or tokens < 1 or need + margin > blocks",
    "leave": "break",
}
WRONG = {
    "code.passed": {"leave": "continue"},
    "code.rows": {"stop": "tokens < 1 or need + margin > blocks"},
    "code.round": {"need": "length // block_size"},
    "code.blocks": {"stop": "rows < 1 or tokens < 1"},
    "code.tokens": {"stop": "rows < 1 or need + margin > blocks"},
    "code.watermark": {"margin": "0"},
    "code.chunk": {"stop": "rows < 1 or tokens < length or need + margin > blocks"},
    "code.idle": {"margin": "watermark"},
}


def source(**changes: str) -> str:
    """A scheduler with one thing done otherwise."""
    return HEAD + LOOP.format(**(RIGHT | changes))


def test_the_engines_rule_passes() -> None:
    """Guards the grader: who decides as the engine does must pass, on all steps of the run."""
    assert verdict_of(finished("L9"), "code", source()).passed


@pytest.mark.parametrize("word", WRONG)
def test_plausible_schedulers_fail_with_their_own_word(word: str) -> None:
    """Guards the help: each of these mistakes is one a learner makes, and its word must not be that of another."""
    verdict = verdict_of(finished("L9"), "code", source(**WRONG[word]))
    assert not verdict.passed and verdict.why.id == word


def test_the_rule_is_the_engines_on_every_step_of_the_run() -> None:
    """Guards the lesson's claim: by the rule that it teaches, every step of the real run comes out."""
    run = finished("L9").stage.kept["run"].results
    for step in run["steps"]:
        assert admitted_by_rule(step, run["block_size"], run["watermark"]) == step["admitted"], step["step"]


def test_head_of_line_choices() -> None:
    """Guards the choice: one right answer, and each wrong one has a word."""
    run = finished("L9")
    assert verdict_of(run, "order", "starve").passed
    assert not any(verdict_of(run, "order", key).passed for key in ("cannot", "hash", "graph", "fair", "memory"))


def test_a_scarcity_that_never_binds_is_said_to_be_none() -> None:
    """Guards the guard: the lesson must look at the reasons, not at the setting."""
    kept = dict(finished("L9").stage.kept)
    run = kept["run"]
    for reason, says in (("no_free_blocks", False), ("max_num_seqs", True)):
        steps = [step | ({} if step["reason"] == "none" else {"reason": reason}) for step in run.results["steps"]]
        changed = kept | {"run": type(run)(run.results | {"steps": steps}, run.values, run.machine)}
        assert ("whole.guard" in {note.text.id for note in again("L9", changed).of(Note)}) == says
