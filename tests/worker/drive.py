"""Drives a worker by hand: every prompt gets a row and its own blocks, all decode together for a fixed number of steps.

No scheduler, no end of sequence: what is under test is the worker's arithmetic alone.
"""

from collections import deque
from dataclasses import dataclass, field

import numpy as np

from engine.request import SamplingParams
from engine.step import RowAdmit, StepInput, StepOutput
from engine.worker.runner import TorchWorker

GREEDY = SamplingParams(temperature=0)


@dataclass
class Answer:
    """Tokens and log-probabilities of one prompt."""

    token_ids: list[int] = field(default_factory=list)
    logprobs: list[dict[int, float] | None] = field(default_factory=list)


class HandDriver:
    """Rows 0, 1, ... hold the prompts; row r owns blocks ``1 + r per_row ..``."""

    def __init__(self, worker: TorchWorker, prompts: list[list[int]], params: list[SamplingParams], seeds: list[int]):
        self.worker, self.prompts, self.params, self.seeds = worker, prompts, params, seeds
        self.size = worker.scheduling.block_size
        self.per_row = worker.scheduling.pool_blocks // len(prompts)
        self.blocks = [0] * len(prompts)
        self.answers = [Answer() for _ in prompts]

    def run(self, max_tokens: int, in_flight: int = 0) -> list[Answer]:
        """Prefill in one step, then decode until each answer has ``max_tokens``; results come ``in_flight`` late."""
        self.worker.reset(self.worker.scheduling)
        lengths, pending = [len(prompt) for prompt in self.prompts], deque()
        for step in range(max_tokens):
            counts = lengths if step == 0 else [1] * len(lengths)
            starts = [0] * len(lengths) if step == 0 else [length + step - 1 for length in lengths]
            self.worker.launch(self._step(step, starts, counts))
            pending.append(step)
            if len(pending) > in_flight:
                pending.popleft()
                self._collect(self.worker.poll())
        while sum(len(a.token_ids) for a in self.answers) < max_tokens * len(lengths):
            self._collect(self.worker.poll())
        return self.answers

    def _step(self, step: int, starts: list[int], counts: list[int]) -> StepInput:
        rows = np.arange(len(counts), dtype=np.int32)
        new = [(row, self._grow(row, starts[row] + counts[row])) for row in rows]
        pairs = [(row, block) for row, blocks in new for block in blocks]
        return StepInput(
            step=step,
            rows=rows,
            epochs=rows + 7,
            num_tokens=np.array(counts, dtype=np.int32),
            starts=np.array(starts, dtype=np.int32),
            samples=np.ones_like(rows),
            new_block_rows=np.array([row for row, _ in pairs], dtype=np.int32),
            new_block_ids=np.array([block for _, block in pairs], dtype=np.int32),
            admits=[self._admit(row) for row in rows] if step == 0 else [],
        )

    def _grow(self, row: int, tokens: int) -> range:
        have, self.blocks[row] = self.blocks[row], -(-tokens // self.size)
        first = 1 + row * self.per_row
        return range(first + have, first + self.blocks[row])

    def _admit(self, row: int) -> RowAdmit:
        prompt = self.prompts[row]
        return RowAdmit(row, row + 7, row, prompt, len(prompt), [], 0, self.params[row], self.seeds[row])

    def _collect(self, outputs: list[StepOutput]) -> None:
        for output in outputs:
            assert (output.epochs == output.rows + 7).all()  # epochs come back unchanged
            for entry, row in enumerate(output.rows):
                self.answers[row].token_ids.append(int(output.token_ids[entry]))
                self.answers[row].logprobs.append(output.logprobs[entry] if output.logprobs else None)


def answer(worker, prompts, params=GREEDY, max_tokens=16, seeds=None, in_flight=0) -> list[list[int]]:
    """Token ids of each prompt's answer. ``params``: one for all, or one per prompt."""
    each = list(params) if isinstance(params, (list, tuple)) else [params] * len(prompts)
    driver = HandDriver(worker, prompts, each, seeds or list(range(len(prompts))))
    return [found.token_ids for found in driver.run(max_tokens, in_flight)]
