"""The fusion lesson: graders, the branch for devices that do not wait for memory, and the two ways to estimate."""

import pytest
from lesson_tests import again, finished, verdict_of

from lessons.kit.items import Note, Reconciled

HEAD = "def fused_trips(operations, sizes, kept):\n"
WRONG = {
    "code.separate": "    return sum(sizes[n] for r, w in operations for n in [*r, *w])\n",
    "code.twice": """    inside, total = set(), 0
    for r, w in operations:
        total += sum(sizes[n] for n in r if n not in inside)
        inside |= set(w)
    return total + sum(sizes[n] for n in inside & set(kept))
""",
    "code.inside": """    r = {n for reads, _ in operations for n in reads}
    return sum(sizes[n] for n in r) + sum(sizes[n] for n in set(kept))
""",
    "code.kept": """    w = {n for _, writes in operations for n in writes}
    r = {n for reads, _ in operations for n in reads} - w
    return sum(sizes[n] for n in r | w)
""",
    "code.writes": """    w = {n for _, writes in operations for n in writes}
    return sum(sizes[n] for n in {n for reads, _ in operations for n in reads} - w)
""",
    "code.type": "    return None\n",
}


def test_the_right_count_passes() -> None:
    """Guards the grader against refusing another way to write it."""
    source = """    w = {n for _, writes in operations for n in writes}
    r = {n for reads, _ in operations for n in reads} - w
    return sum(sizes[n] for n in r) + sum(sizes[n] for n in w if n in kept)
"""
    assert verdict_of(finished("L4"), "code", HEAD + source).passed


@pytest.mark.parametrize("word", WRONG)
def test_plausible_counts_fail_with_their_own_word(word: str) -> None:
    """Guards the help: each of these mistakes is one a learner makes."""
    verdict = verdict_of(finished("L4"), "code", HEAD + WRONG[word])
    assert not verdict.passed and verdict.why.id == word


def test_only_the_repeated_norm_speaks_against_the_prologue() -> None:
    """Guards the choice: one right answer, and each wrong one has a word."""
    run = finished("L4")
    assert verdict_of(run, "limit", "rows").passed
    assert not any(verdict_of(run, "limit", key).passed for key in ("types", "math", "memory", "library", "gradient"))


def test_both_regimes_are_taught() -> None:
    """Guards the null branch: where bytes do not decide, the lesson must not claim that they did."""
    kept = dict(finished("L4").stage.kept)
    for ratio, says in ((2.4, "norm.near"), (1.05, "norm.guard")):
        chain = kept["chain"]
        entries = [entry | {"separate_us": ratio * entry["fused_us"]} for entry in chain.results["norm"]]
        changed = kept | {"chain": type(chain)(chain.results | {"norm": entries}, chain.values, chain.machine)}
        notes = {note.text.id for note in again("L4", changed).of(Note)}
        assert says in notes and len(notes & {"norm.near", "norm.guard"}) == 1


def test_amdahl_by_time_is_exact_and_the_published_count_is_reproduced() -> None:
    """Guards both estimators: by time the identity closes, and the article's 1.61 comes out."""
    rows = next(each for each in finished("L4").of(Reconciled) if each.id == "layer").rows
    by_time, by_count = rows
    assert by_time.theory == pytest.approx(by_time.observed, rel=1e-6)
    assert by_count.theory == pytest.approx(1.61, abs=0.005)
