"""Steps that nobody asked for: they compile kernels before the first request does, and show what activations take."""

from typing import TYPE_CHECKING

import numpy as np

from engine.request import SamplingParams
from engine.step import Int32, RowAdmit, StepInput

if TYPE_CHECKING:
    from engine.worker.runner import TorchWorker

GENERAL = SamplingParams(temperature=0.8, top_k=20, top_p=0.9, min_p=0.01, repetition_penalty=1.1)
PLAIN = SamplingParams(temperature=0.8)


def run(worker: "TorchWorker") -> None:
    """A prefill at the token budget, then decode at one row and at all rows, with plain and with general sampling.

    On a CPU nothing is compiled: one token is enough to load the libraries.
    """
    if worker.device.type == "cpu":
        worker.launch(dummy_step(worker, 1, 1))
        worker.poll()
        return
    limits = worker.scheduling
    for params in (PLAIN, GENERAL):
        for rows, tokens in ((limits.max_num_seqs, limits.token_budget), (limits.max_num_seqs, None), (1, None)):
            worker.launch(dummy_step(worker, rows, tokens or rows, params))
            worker.poll()


def dummy_step(worker: "TorchWorker", rows: int, tokens: int, params: SamplingParams = PLAIN) -> StepInput:
    """A step of ``rows`` fresh rows that compute ``tokens`` tokens together, or as many as pool and context allow."""
    limits = worker.scheduling
    rows = min(rows, tokens, limits.pool_blocks)
    per_row = min(limits.max_model_len - 1, limits.pool_blocks // rows * limits.block_size)
    lengths = np.minimum(np.full(rows, tokens // rows) + (np.arange(rows) < tokens % rows), per_row).astype(np.int32)
    blocks = -(-lengths // limits.block_size)
    admits = [_admit(row, [1] * int(length), params) for row, length in enumerate(lengths)]
    return _step(np.arange(rows, dtype=np.int32), lengths, blocks, admits)


def single_row_step(token_ids: list[int], blocks: int) -> StepInput:
    """One row that computes a whole sequence in blocks 1, 2, ..."""
    lengths, counts = np.array([len(token_ids)], dtype=np.int32), np.array([blocks])
    return _step(np.zeros(1, dtype=np.int32), lengths, counts, [_admit(0, token_ids, PLAIN)])


def _admit(row: int, token_ids: list[int], params: SamplingParams) -> RowAdmit:
    return RowAdmit(row, 0, -1, token_ids, len(token_ids), [], 0, params, seed=0)


def _step(rows: Int32, lengths: Int32, blocks: np.ndarray, admits: list[RowAdmit]) -> StepInput:
    return StepInput(
        step=0,
        rows=rows,
        epochs=np.zeros_like(rows),
        num_tokens=lengths,
        starts=np.zeros_like(rows),
        samples=np.ones_like(rows),
        new_block_rows=np.repeat(rows, blocks),
        new_block_ids=np.arange(1, blocks.sum() + 1, dtype=np.int32),
        admits=admits,
    )
