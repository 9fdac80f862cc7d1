"""The step as a value: what the scheduler asks of a worker, and what the worker answers.

It stands outside ``engine/worker`` so that deciding never imports torch. A tensor-parallel group would broadcast the
same ``StepInput``; the KV oracle, the simulator and replay are other workers behind the same protocol.
"""

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from engine.request import SamplingParams

Int32 = NDArray[np.int32]
NO_COPIES: Int32 = np.empty(0, dtype=np.int32)


class Eager(IntEnum):
    """Why a step runs without a CUDA graph."""

    NONE = 0  # it has one
    NO_GRAPHS = 1  # this device, or this backend, has none at all
    NOT_CAPTURED_YET = 2
    CAPTURE_FAILED = 3


@dataclass(slots=True)
class RowAdmit:
    """Everything a row needs to start: the only write that resets row state (length, table, seed, counts)."""

    row: int
    epoch: int
    request: int
    token_ids: list[int]  # prompt, and the generated tokens of a resumed request
    prompt_length: int
    blocks: list[int]  # prefix hit: the block table starts with these
    num_computed: int  # tokens whose KV the hit blocks hold
    params: SamplingParams
    seed: int


@dataclass(slots=True)
class StepInput:
    """One step, as flat arrays. Entry i describes the i-th scheduled row; rows are unique within a step.

    Row ``rows[i]`` computes ``num_tokens[i]`` tokens at positions ``starts[i] ..``; when ``samples[i]`` is 1 the
    logits of its last token give the next token. A decode row's token may still be in flight: the worker reads it from
    its own ``tokens[row, position]``. New blocks are a diff: ``new_block_ids[j]`` is appended to the table of
    ``new_block_rows[j]``. ``admits`` is applied before everything else.

    Copies between pool and host happen before any KV is written, one after the other: first all of ``copy_out`` (block,
    host slot, block, host slot, ...), then all of ``copy_in`` (host slot, block, ...). Both are empty without offload.
    """

    step: int
    rows: Int32
    epochs: Int32
    num_tokens: Int32
    starts: Int32
    samples: Int32
    new_block_rows: Int32
    new_block_ids: Int32
    admits: list[RowAdmit] = field(default_factory=list)
    bucket: int = 0  # padded token count of a graph, 0 when eager
    copy_out: Int32 = field(default_factory=lambda: NO_COPIES)
    copy_in: Int32 = field(default_factory=lambda: NO_COPIES)

    @property
    def total_tokens(self) -> int:
        """Tokens computed in this step, padding not counted."""
        return int(self.num_tokens.sum())


@dataclass(slots=True)
class StepOutput:
    """What a step produced: one entry per sampled token (a row that got several tokens repeats, in order).

    ``logprobs`` (when a request asked): one ``{token_id: logprob}`` per token, of the model's raw distribution, or
    None. Times are microseconds, 0 when not measured. ``idle_us``: from the end of the step launched before to the
    begin of this one, by the device's own clock; None when not measured.
    """

    step: int
    rows: Int32
    epochs: Int32
    token_ids: Int32
    logprobs: list[dict[int, float] | None] | None = None
    gpu_us: float = 0.0
    host_us: float = 0.0
    idle_us: float | None = None


class Worker(Protocol):
    """Computes steps. Launches are asynchronous and complete in order."""

    def launch(self, step: StepInput) -> None:
        """Queue one step on the device; returns before it is done."""

    def poll(self, block: bool = True) -> list[StepOutput]:
        """Finished steps in launch order. With ``block`` wait for at least one if any is in flight."""

    def prepare(self) -> bool:
        """While nothing runs: prepare a little more (capture a graph). False when nothing is left to prepare."""

    def graph_for(self, tokens: int, decode: bool) -> tuple[int, Eager]:
        """Padded tokens of the graph that such a step would run in (0: eagerly), and why it has none.

        ``decode``: every row computes one token.
        """
