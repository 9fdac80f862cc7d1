"""A step while it is put together: flat lists that become the worker's ``StepInput`` and the trace's STEP record."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from engine.request import Request, RequestState
from engine.scheduling.block_pool import BlockPool
from engine.scheduling.capacity import Shortage
from engine.scheduling.roster import Roster
from engine.step import Eager, RowAdmit, StepInput
from engine.trace.events import Reason, Step

if TYPE_CHECKING:
    from engine.scheduling.steady import SteadyDecode


@dataclass(slots=True)
class Launched:
    """What must be remembered of a step until its results arrive. Entry i belongs to the i-th scheduled row."""

    step: int
    requests: list[Request]
    rows: list[int]
    epochs: Sequence[int]
    ends: Sequence[int]  # num_computed_tokens of the row once the step is done
    steady: "SteadyDecode | None" = None  # the decode set that planned it, when the fast twin did
    fetched: Sequence[tuple[Request, int, int]] = ()  # who gets content from the host, its epoch, its tokens with that

    def settle(self) -> dict[int, Request]:
        """Move ``num_computed_tokens`` of every row that still stands as launched; return those whose results count:
        row -> request. Stale rows (preempted, finished, aborted since) and padded rows are not among them."""
        for request, epoch, tokens in self.fetched:
            if request.epoch == epoch:
                request.num_computed_tokens = tokens
        awaited = {}
        for request, row, epoch, end in zip(self.requests, self.rows, self.epochs, self.ends):
            if request.epoch == epoch:
                request.num_computed_tokens = int(end)
                if request.state is RequestState.RUNNING:
                    awaited[row] = request
        return awaited


@dataclass(slots=True)
class StepPlan:
    """Decodes and chunks of one step, the blocks they need, and why the head of the queue was left out."""

    decodes: list[Request] = field(default_factory=list)
    chunks: list[tuple[Request, int]] = field(default_factory=list)  # with the number of tokens
    admits: list[RowAdmit] = field(default_factory=list)
    block_rows: list[int] = field(default_factory=list)
    block_ids: list[int] = field(default_factory=list)
    fetched: list[tuple[Request, int, int]] = field(default_factory=list)  # as in ``Launched``
    preempted: int = 0  # requests that lost their blocks in this step
    starved: int = 0  # rows that wait for a block until the steps in flight are applied
    head: tuple[int, int, int, int] = (-1, int(Reason.NONE), 0, 0)  # request, reason, need, have

    @property
    def is_empty(self) -> bool:
        """True when no row computes anything."""
        return not (self.decodes or self.chunks)

    @property
    def total_tokens(self) -> int:
        """Tokens computed by all rows."""
        return len(self.decodes) + sum(tokens for _, tokens in self.chunks)

    @property
    def num_rows(self) -> int:
        """Rows that compute something."""
        return len(self.decodes) + len(self.chunks)

    def admit(self, request: Request) -> None:
        """``request`` starts in its row, behind the KV of its prefix hits."""
        self.admits.append(
            RowAdmit(
                row=request.row,
                epoch=request.epoch,
                request=request.id,
                token_ids=list(request.token_ids),
                prompt_length=request.num_prompt_tokens,
                blocks=list(request.blocks),
                num_computed=request.num_scheduled_tokens,
                params=request.params,
                seed=request.seed,
            )
        )

        if request.num_computed_tokens < request.num_scheduled_tokens:
            self.fetched.append((request, request.epoch, request.num_scheduled_tokens))

    def add_blocks(self, row: int, blocks: list[int]) -> None:
        """``blocks`` are appended to the table of ``row``."""
        self.block_rows += [row] * len(blocks)
        self.block_ids += blocks

    def leave_out(self, request: Request, shortage: Shortage) -> None:
        """``request`` is the head of the queue, and this is why it waits."""
        reason, need, have = shortage
        self.head = (request.id, int(reason), need, have)

    def record(self, roster: Roster, budget: int, graph: tuple[int, Eager], pool: BlockPool) -> Step:
        """The STEP record. Must be taken before ``launch`` moves the requests on. ``graph``: bucket, why eager."""
        head, reason, need, have = self.head
        return Step(
            budget=budget,
            used=self.total_tokens,
            free=pool.free,
            reclaimable=pool.reclaimable,
            waiting=len(roster.waiting),
            bucket=graph[0],
            eager_reason=int(graph[1]),
            head=head,
            head_reason=reason,
            head_need=need,
            head_have=have,
            joined=[r.row for r in self.decodes if r.num_scheduled_tokens == r.num_tokens_at_admission],
            sat_out=self._sat_out(roster.running),
            chunk_rows=[request.row for request, _ in self.chunks],
            chunk_starts=[request.num_scheduled_tokens for request, _ in self.chunks],
            chunk_tokens=[tokens for _, tokens in self.chunks],
            chunk_lasts=[int(tokens == request.num_to_prefill) for request, tokens in self.chunks],
            block_rows=self.block_rows,
            block_ids=self.block_ids,
            hashed=list(pool.newly_hashed),
        )

    def launch(self, step: int, bucket: int) -> tuple[StepInput, Launched]:
        """Count the planned tokens as scheduled; return the step for the worker, and what to remember of it."""
        requests = self.decodes + [request for request, _ in self.chunks]
        tokens = [1] * len(self.decodes) + [tokens for _, tokens in self.chunks]
        rows = [request.row for request in requests]
        epochs = [request.epoch for request in requests]
        starts = [request.num_scheduled_tokens for request in requests]
        ends = list(map(int.__add__, starts, tokens))
        for request, end in zip(requests, ends):
            request.num_scheduled_tokens = end
        samples = [1] * len(self.decodes) + [int(request.num_to_prefill == 0) for request, _ in self.chunks]
        arrays = (rows, epochs, tokens, starts, samples, self.block_rows, self.block_ids)
        step_input = StepInput(step, *(np.array(values, np.int32) for values in arrays), self.admits, bucket)
        return step_input, Launched(step, requests, rows, epochs, ends, fetched=self.fetched)

    def _sat_out(self, running: list[Request]) -> list[int]:
        """Rows that have decoded before, but do not compute in this step."""
        if len(self.decodes) == len(running):
            return []
        planned = {request.row for request in self.decodes}
        decoding = (r for r in running if r.num_scheduled_tokens > r.num_tokens_at_admission)
        return [r.row for r in decoding if r.row not in planned]
