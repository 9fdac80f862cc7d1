"""The lesson on paged KV: graders, the theory of waste, and the pool that never binds."""

import pytest
from lesson_tests import again, finished, verdict_of

from lessons.kit.items import Exercise, Note, Reconciled

RIGHT = {
    "need": "        need = -(-(known + tokens) // self.block_size) - len(table)\n",
    "look": "        if need > len(self.free_blocks):\n            return False\n",
    "free": "        self.free_blocks += self.tables.pop(request, [])\n        self.tokens.pop(request, None)\n",
}
WRONG = {
    "code.leak": {"free": "        self.tables.pop(request, None)\n        self.tokens.pop(request, None)\n"},
    "code.twice": {"free": "        self.free_blocks += self.tables.get(request, [])\n"},
    "code.one": {"need": "        need = int(-(-(known + tokens) // self.block_size) > len(table))\n"},
    "code.partial": {"need": "        need = (known + tokens) // self.block_size - len(table)\n"},
    "code.boundary": {"need": "        need = (known + tokens) // self.block_size + 1 - len(table)\n"},
    "code.fresh": {"need": "        need = -(-tokens // self.block_size)\n"},
    "code.atomic": {
        "look": "        if need > len(self.free_blocks):\n"
        "            self.tables[request] = table + self.free_blocks\n            self.free_blocks = []\n"
        "            return False\n"
    },
    "code.kept": {
        "free": "        self.free_blocks += self.tables.get(request, [])[1:]\n"
        "        self.tables[request] = self.tables.get(request, [])[:1]\n"
    },
}


def _source(**parts: str) -> str:
    """An allocator from its three parts, and the lesson's own ``play``."""
    (task,) = [item for item in finished("L6").of(Exercise) if item.id == "code"]
    play = task.form.starter[task.form.starter.index("def play") :]
    part = RIGHT | parts
    return (
        "class Allocator:\n    def __init__(self, num_blocks, block_size):\n        self.block_size = block_size\n"
        "        self.free_blocks = list(range(1, num_blocks + 1))\n        self.tables, self.tokens = {}, {}\n\n"
        "    def append(self, request, tokens):\n"
        "        table, known = self.tables.get(request, []), self.tokens.get(request, 0)\n"
        f"{part['need']}{part['look']}"
        "        self.tables[request] = table + [self.free_blocks.pop() for _ in range(need)]\n"
        "        self.tokens[request] = known + tokens\n        return True\n\n"
        f"    def free(self, request):\n{part['free']}\n\n{play}"
    )


def test_another_right_allocator_passes() -> None:
    """Guards the grader against demanding an order of the free list: this one hands out the highest block first."""
    assert verdict_of(finished("L6"), "code", _source()).passed


@pytest.mark.parametrize("word", WRONG)
def test_plausible_allocators_fail_with_their_own_word(word: str) -> None:
    """Guards the help: leaks, double frees, one block for many, a missing last block, a block too early, and so on."""
    verdict = verdict_of(finished("L6"), "code", _source(**WRONG[word]))
    assert not verdict.passed and verdict.why.id == word


def test_the_address_is_graded_with_a_word_for_each_slip() -> None:
    """Guards exercise 1 on the learner's own table: the layout of the real pool passes, usual slips are named."""
    run = finished("L6")
    kept = run.stage.kept["arrivals"].results
    model, tables = kept["model"], kept["grid"]["tables"]
    (task,) = [item for item in run.of(Exercise) if item.id == "address"]
    table, token = tables[task.task.values["owner"]], task.task.values["token"]
    heads, row = model["kv_heads"], model["head_dim"] * model["item_bytes"]
    block, offset = table[token // 16], token % 16
    assert verdict_of(run, "address", ((block * heads + 1) * 16 + offset) * row).passed
    slips = {
        "address.logical": ((token // 16 * heads + 1) * 16 + offset) * row,
        "address.slot": (block * 16 + offset) * row,
        "address.tokens": (block * 16 + offset) * heads * row,
        "address.one": ((block * heads + 1) * 16 + offset - 1) * row,
        "address.head": (block * heads * 16 + offset) * row,
        "address.wrong": 7,
    }
    for word, answer in slips.items():
        verdict = verdict_of(run, "address", answer)
        assert not verdict.passed and verdict.why.id == word


def test_nothing_ever_moves() -> None:
    """Guards the claim on defragmentation: only "never" passes, and each other pick has a word of its own."""
    run = finished("L6")
    (task,) = [item for item in run.of(Exercise) if item.id == "compact"]
    said = {key: verdict_of(run, "compact", key) for key in task.form.options}
    assert [key for key, verdict in said.items() if verdict.passed] == ["never"]
    assert len({verdict.why.id for verdict in said.values()}) == len(said) == 5


def test_a_pool_that_never_binds_says_so() -> None:
    """Guards the regime guard: without pressure the lesson may not claim that paging fitted more."""
    kept = dict(finished("L6").stage.kept)
    old = kept["arrivals"]
    allocators = [each | {"waited_steps": 0} for each in old.results["allocators"]]
    changed = kept | {"arrivals": type(old)(old.results | {"allocators": allocators}, old.values, old.machine)}
    notes = {note.text.id for note in again("L6", changed).of(Note)}
    assert "pool.guard" in notes and "fits.note" not in notes
    assert "pool.guard" not in {note.text.id for note in finished("L6").of(Note)}


@pytest.mark.parametrize(
    ("laps", "times", "word"),
    [
        ((1.0, 1.6), (1.0, 1.0), "size.disturbed"),
        ((1.0, 1.01), (1.0, 1.0), "size.same"),
        ((1.0, 1.0), (1.0, 2.0), "size.differ"),
    ],
)
def test_step_times_are_believed_when_they_repeat(laps: tuple, times: tuple, word: str) -> None:
    """Guards against reading a law into noise: block sizes are told apart only beyond what two equal runs differ by."""
    kept = dict(finished("L6").stage.kept)
    old = kept["sizes"]
    entries = [
        entry | {"ms_per_step": ms, "laps_ms": [ms * lap for lap in laps]}
        for entry, ms in zip(old.results["entries"], times, strict=True)
    ]
    changed = kept | {"sizes": type(old)(old.results | {"entries": entries}, old.values, old.machine)}
    assert word in {note.text.id for note in again("L6", changed).of(Note)}


def test_counted_waste_meets_the_theory() -> None:
    """Guards the reconciliation: half a block less half a token, on a real run, and what L2 left is used."""
    run = again("L6", finished("L6").stage.kept, waste16=3, reserved=2, paged=9)
    rows = {row.label.id: row for each in run.of(Reconciled) for row in each.rows}
    assert rows["waste.row16"].observed == pytest.approx(7.5, rel=0.25)
    assert rows["waste.row128"].observed == pytest.approx(63.5, rel=0.25)
    assert rows["fits.reserved"].theory == rows["fits.reserved"].observed
    assert rows["fits.paged"].observed == pytest.approx(rows["fits.replay"].theory, rel=0.15)
    assert rows["bytes.row"].observed == pytest.approx(rows["bytes.row"].theory, rel=0.01)
    assert run.stage.progress.ledger["waste_tokens_per_request"].value == rows["waste.row16"].observed
