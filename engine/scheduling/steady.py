"""The fast twin of planning and applying a step of pure decode in which nobody came or left since the step before.

Then the rows are those of the step before, each one token further, and which of them fill a block is known long before:
a row that takes a block now takes the next one ``block_size`` steps later. So a step touches the few rows that take a
block, and of every request no more than its counters. The readable path (``Scheduler._plan_decodes``,
``StepPlan.launch``, ``results.collect``) is the specification; it runs whenever anything else happens.
"""

import numpy as np

from engine.request import Request, RequestState
from engine.scheduling.kv_cache_manager import KVCacheManager
from engine.scheduling.plan import Launched, StepPlan
from engine.scheduling.results import OneEach
from engine.scheduling.roster import Roster
from engine.step import Int32, StepInput, StepOutput
from engine.trace.events import Apply

NOBODY: Int32 = np.empty(0, dtype=np.int32)


class SteadyDecode:
    """The decode set after a launched step, as flat arrays. Valid until anybody is admitted or leaves."""

    def __init__(self, requests: list[Request], roster: Roster, block_size: int) -> None:
        self.requests = requests
        self.row_list = [request.row for request in requests]
        self.rows = np.array(self.row_list, dtype=np.int32)
        self.epochs = np.array([request.epoch for request in requests], dtype=np.int32)
        self.ones = np.ones(len(requests), dtype=np.int32)
        self.starts = np.array([request.num_scheduled_tokens for request in requests], dtype=np.int32)
        self.steps_left = min(request.kv_limit - request.num_scheduled_tokens for request in requests)
        self._live = [i for i, request in enumerate(requests) if request.state is RequestState.RUNNING]
        self.live = [requests[i] for i in self._live]  # the others are padded: their tokens are dropped
        self.live_rows = [request.row for request in self.live]
        self.padded_rows = [request.row for request in requests if request.state is not RequestState.RUNNING]
        self.ending_ids = frozenset().union(*(request.ending_ids for request in self.live))
        self._moves = roster.moves
        self._due: list[list[Request]] = [[] for _ in range(block_size)]
        for request in roster.running:  # the same ones, in the order in which they get their blocks
            self._due[(len(request.blocks) * block_size - request.num_scheduled_tokens) % block_size].append(request)
        self._phase = 0
        self._applies_left: int | None = None  # until the first of them has its last token

    @classmethod
    def after(cls, plan: StepPlan, roster: Roster, block_size: int) -> "SteadyDecode | None":
        """What holds from now on, when ``plan`` was launched and all rows decoded in it; else None."""
        steady = not plan.chunks and len(plan.decodes) == len(roster.running)
        return cls(plan.decodes, roster, block_size) if steady else None

    def goes_on(self, roster: Roster, available: int) -> bool:
        """Whether all rows can compute one more token now, and nobody else has a say in it."""
        return self._moves == roster.moves and self.steps_left > 0 and len(self._due[self._phase]) <= available

    def plan(self, plan: StepPlan, kv: KVCacheManager, to_hash: list[Request]) -> None:
        """Plan one token for every row, and a block for those whose blocks are full."""
        plan.decodes = self.requests
        for request in self._due[self._phase]:
            if not kv.hash_full_blocks(request, request.num_scheduled_tokens):
                to_hash.append(request)
            plan.add_blocks(request.row, kv.grow(request, request.num_scheduled_tokens + 1))

    def launch(self, step: int, plan: StepPlan, bucket: int) -> tuple[StepInput, Launched]:
        """As ``StepPlan.launch`` for a plan that holds these decodes alone."""
        starts = self.starts
        self.starts = ends = starts + 1
        self.steps_left -= 1
        self._phase = (self._phase + 1) % len(self._due)
        for request in self.requests:
            request.num_scheduled_tokens += 1
        block_rows, block_ids = NOBODY, NOBODY
        if plan.block_rows:
            block_rows, block_ids = np.array(plan.block_rows, np.int32), np.array(plan.block_ids, np.int32)
        rows, epochs, ones = self.rows, self.epochs, self.ones
        step_input = StepInput(step, rows, epochs, ones, starts, ones, block_rows, block_ids, [], bucket)
        return step_input, Launched(step, self.requests, self.row_list, epochs, ends, self)

    def collect(self, output: StepOutput, roster: Roster) -> tuple[Apply, OneEach] | None:
        """As ``Launched.settle`` and ``results.collect`` for a step of this decode set; None when they must do it:
        someone came or left, an answer may end here, or a row brings anything but one token."""
        same_rows = output.rows is self.rows or np.array_equal(output.rows, self.rows)
        if self._moves != roster.moves or not same_rows or output.logprobs is not None:
            self._applies_left = None
            return None
        if self._applies_left is None:
            self._applies_left = min(request.ends_at - len(request.token_ids) for request in self.live)
        token_ids = output.token_ids.tolist()
        if self.padded_rows:
            token_ids = [token_ids[i] for i in self._live]
        self._applies_left -= 1
        if self._applies_left <= 0 or not self.ending_ids.isdisjoint(token_ids):
            self._applies_left = None
            return None
        for request in self.requests:
            request.num_computed_tokens += 1
        for request, token in zip(self.live, token_ids):
            request.token_ids.append(token)
        return Apply(output.step, self.live_rows, token_ids, self.padded_rows), OneEach(self.live, token_ids)
