"""The KV oracle: a worker without torch whose model is a hash of the whole prefix.

A slot holds the hash of all tokens up to the one written there. A step writes its new positions, then reads *every*
position of every row through the block table that the worker keeps from ``StepInput`` diffs, and compares: a block
given away too early, hit wrongly, shared in error or missing from a table shows at once, with its place. The next
token is a function of the prefix hash, so whatever the schedule was, the answer must be ``reference_answer``.
"""

from collections import deque
from dataclasses import dataclass

import numpy as np

from engine.request import Request
from engine.step import StepInput, StepOutput

VOCAB = 10
EOS = 9


class Mismatch(AssertionError):
    """A row read something else than it must from the KV cache."""


class LaunchFailed(RuntimeError):
    """Injected: the device took nothing of this step."""


def extend(prefix: int, token: int) -> int:
    """Hash of a prefix and one more token."""
    return hash((prefix, token))


def sample(prefix: int) -> int:
    """The next token behind a prefix."""
    return (prefix >> 7) % VOCAB


def reference_answer(request: Request, context: int, stop_pair: tuple[int, int] | None = None) -> list[int]:
    """The answer of ``request`` alone, without batches, blocks or steps. ``context``: longest prompt + answer.
    ``stop_pair`` stands for a stop string: the answer ends behind these two tokens."""
    params, prefix, answer = request.params, 0, []
    for token in request.prompt_ids:
        prefix = extend(prefix, token)
    limit = min(request.max_tokens, context - len(request.prompt_ids))
    if params.forced_output_length is not None:
        limit = min(limit, params.forced_output_length)
    while len(answer) < limit:
        token = sample(prefix)
        prefix = extend(prefix, token)
        answer.append(token)
        if params.forced_output_length is not None:
            continue
        ends = token in params.stop_token_ids or (token == EOS and not params.ignore_eos)
        if ends and len(answer) > params.min_tokens:
            break
        if stop_pair and tuple(answer[-2:]) == stop_pair:
            break
    return answer


@dataclass
class Row:
    """What the device knows of a row."""

    request: int
    tokens: dict[int, int]  # position -> token
    table: list[int]
    prefix: list[int]  # hash of the first i + 1 tokens


class OracleWorker:
    """Executes steps in launch order at once; their results are handed out one ``poll`` each, later."""

    def __init__(self, pool_blocks: int, block_size: int, host_blocks: int = 0) -> None:
        self.block_size = block_size
        self.slots = [[None] * block_size for _ in range(pool_blocks + 1)]
        self.host = [[None] * block_size for _ in range(host_blocks)]
        self.rows: dict[int, Row] = {}
        self.results: deque[StepOutput] = deque()
        self.fail_next = False

    def launch(self, step: StepInput) -> None:
        """Write, read and compare, sample. Raises ``Mismatch``, or ``LaunchFailed`` once after ``fail_next``."""
        if self.fail_next:
            self.fail_next = False
            raise LaunchFailed(f"step {step.step}")
        self._swap(step)
        for admit in step.admits:
            assert admit.num_computed == len(admit.blocks) * self.block_size
            known = dict(enumerate(admit.token_ids))
            self.rows[admit.row] = Row(admit.request, known, list(admit.blocks), [])
            self._extend_prefix(self.rows[admit.row], admit.num_computed)
        for row, block in zip(step.new_block_rows.tolist(), step.new_block_ids.tolist()):
            self.rows[row].table.append(block)
        scheduled = list(zip(step.rows.tolist(), step.starts.tolist(), step.num_tokens.tolist(), step.samples.tolist()))
        assert len({row for row, *_ in scheduled}) == len(scheduled), f"step {step.step}: a row is scheduled twice"
        for row, start, count, _ in scheduled:
            self._write(step.step, self.rows[row], start, start + count)
        for row, start, count, _ in scheduled:
            self._read(step.step, self.rows[row], start + count)
        sampling = [row for row, *_, samples in scheduled if samples]
        for row in sampling:
            prefix = self.rows[row].prefix
            self.rows[row].tokens[len(prefix)] = sample(prefix[-1])
        self._answer(step, sampling)

    def poll(self) -> StepOutput:
        """Results of the oldest step that has not been handed out."""
        return self.results.popleft()

    def skip(self, step: StepInput) -> None:
        """Queue the empty results of a step whose launch failed."""
        none = np.empty(0, np.int32)
        self.results.append(StepOutput(step.step, none, none, none))

    def _swap(self, step: StepInput) -> None:
        """Copies between pool and host, one after the other. What comes in is compared when it is read."""
        for block, slot in step.copy_out.reshape(-1, 2).tolist():
            self.host[slot] = list(self.slots[block])
        for slot, block in step.copy_in.reshape(-1, 2).tolist():
            self.slots[block] = list(self.host[slot])

    def _answer(self, step: StepInput, sampling: list[int]) -> None:
        rows = [self.rows[row] for row in sampling]
        tokens = [row.tokens[len(row.prefix)] for row in rows]
        epochs = step.epochs[step.samples > 0]
        self.results.append(StepOutput(step.step, np.array(sampling, np.int32), epochs, np.array(tokens, np.int32)))

    def _extend_prefix(self, row: Row, end: int) -> None:
        for position in range(len(row.prefix), end):
            row.prefix.append(extend(row.prefix[-1] if position else 0, row.tokens[position]))

    def _write(self, step: int, row: Row, start: int, end: int) -> None:
        if start != len(row.prefix):
            raise Mismatch(f"step {step}: request {row.request} computes from {start}, but {len(row.prefix)} are done")
        if any(position not in row.tokens for position in range(start, end)):
            raise Mismatch(f"step {step}: request {row.request} computes tokens nobody knows in {start}..{end - 1}")
        if end > len(row.table) * self.block_size:
            raise Mismatch(
                f"step {step}: request {row.request} writes behind its {len(row.table)} blocks, to {end - 1}"
            )
        self._extend_prefix(row, end)
        for position in range(start, end):
            block, offset = row.table[position // self.block_size], position % self.block_size
            self.slots[block][offset] = row.prefix[position]

    def _read(self, step: int, row: Row, end: int) -> None:
        held = [value for block in row.table for value in self.slots[block]][:end]
        if held == row.prefix:
            return
        position = next(i for i, (one, other) in enumerate(zip(held, row.prefix)) if one != other)
        slot = row.table[position // self.block_size] * self.block_size + position % self.block_size
        raise Mismatch(f"step {step}: request {row.request} reads foreign KV at position {position}, slot {slot}")
