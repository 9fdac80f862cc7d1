"""In steady decode the device moves its rows on by itself: what is sent, and that the tokens stay the same."""

import numpy as np
import pytest

from engine.request import SamplingParams
from engine.worker.inbox import Inbox
from tests.worker.checkpoints import build, save, worker_for
from tests.worker.drive import GREEDY, HandDriver
from tests.worker.loop import Loop
from tests.worker.test_padding import pad
from tests.worker.test_sampling_rows import A, B, C


@pytest.fixture
def worker(tmp_path):
    return worker_for(save(build("llama", seed=6), tmp_path), max_num_seqs=5, token_budget=64)


@pytest.fixture
def sent(monkeypatch) -> list[tuple[int, int]]:
    """First and last word of every copy into the inbox."""
    copies, copy = [], Inbox._copy

    def record(self, slot, start, end):
        copies.append((start, end))
        copy(self, slot, start, end)

    monkeypatch.setattr(Inbox, "_copy", record)
    return copies


@pytest.mark.parametrize("graphs", [False, True], ids=["eager", "graphs"])
def test_only_new_blocks_are_sent(worker, sent, graphs):
    """Blocks of 4: of a row's decode steps every fourth brings one block of three words, the others bring nothing."""
    pad(worker, graphs)
    HandDriver(worker, [C], [GREEDY], [1]).run(14)  # three prompt tokens, thirteen decode steps at positions 3 to 15
    prefill, first_decode, *blocks = sent
    assert prefill[0] == first_decode[0] == 0
    assert [end - start for start, end in blocks] == [7] * 3  # positions 4, 8 and 12
    assert all(start > 0 for start, _ in blocks)


def test_steady_decode_ends_where_rows_change(worker, sent):
    """A row that finishes, one that joins and one that sits out each make the next step a whole one, and a decode row
    that computes without sampling never counts as steady."""
    driver = HandDriver(worker, [A, B, C], [GREEDY] * 3, [1, 2, 3])
    driver.run(2)
    inbox, lengths = worker.steps.program.inbox, np.array([len(A), len(B), len(C)])
    on = driver._step(2, (lengths + 1).tolist(), [1, 1, 1])
    assert inbox.send_if_steady(on) is not None
    again = driver._step(3, (lengths + 1).tolist(), [1, 1, 1])  # the same positions once more
    assert inbox.send_if_steady(again) is None
    for change in ("rows", "samples", "num_tokens", "starts"):
        worker.launch(driver._step(2, (lengths + 1).tolist(), [1, 1, 1]))
        step = driver._step(3, (lengths + 2).tolist(), [1, 1, 1])
        setattr(step, change, getattr(step, change) * 0 + 9)
        assert inbox.send_if_steady(step) is None
        worker.poll()


def test_special_rows_are_noticed_in_the_middle(worker):
    """Rows below min_tokens, and rows with penalties, leave the fast path; beside them the plain row's tokens stay."""
    plain = SamplingParams(temperature=0.8, max_tokens=20)
    special = SamplingParams(temperature=0.8, max_tokens=9, min_tokens=6, frequency_penalty=0.4, stop_token_ids=(3, 4))
    alone = []
    for params in (plain, special):
        loop = Loop(worker)
        loop.add(A, params, seed=5)
        alone += loop.run().token_ids
    pad_loop = Loop(worker, max_num_seqs=5, token_budget=64)
    pad(worker, graphs=True)
    pad_loop.add(A, plain, seed=5)
    for _ in range(4):
        pad_loop.step()
    pad_loop.add(A, special, seed=5)
    assert pad_loop.run().token_ids == alone
