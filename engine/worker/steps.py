"""Launches steps and collects their results: the path that every token takes.

In steady decode a launch is one graph replay and the copy of its ids: the device knows the rows, and moves them on.
"""

import time
from collections import deque

import torch

from engine.step import Eager, Int32, StepInput, StepOutput
from engine.worker.graphs import Ladder, Shapes, exact_shape
from engine.worker.host_pool import HostPool
from engine.worker.inbox import SLOTS
from engine.worker.results import PendingStep, logprobs_to_host, sampling_entries
from engine.worker.rows import NO_CHANGES
from engine.worker.sampler import Logprobs
from engine.worker.step_batch import Shape
from engine.worker.whole_step import WholeStep


class Steps:
    """Steps of one set of buffers.

    Args:
        program: what a step runs.
        shapes: what steps are padded to; None: not padded.
        host: takes evicted blocks; None: there is none.
    """

    def __init__(self, program: WholeStep, shapes: Shapes | None, host: HostPool | None = None) -> None:
        self.program, self.shapes, self.host = program, shapes, host
        self.ladder: Ladder | None = None
        self.pending: deque[PendingStep] = deque()
        self._special = False  # the last step's rows ask for more than temperature and filters
        self._filtered = False  # they ask for filters
        self._last_end = 0  # of the last step collected, ns of the device's clock

    def forget(self) -> None:
        """Empty rows, nothing in flight: a new run begins."""
        while self.pending:
            self.poll(block=True)
        self.program.forget()
        self._last_end = 0

    def graph_for(self, tokens: int, decode: bool) -> tuple[int, Eager]:
        """Padded tokens of the graph for such a step (0: it runs eagerly), and why it has none."""
        if self.ladder is None:
            return 0, Eager.NO_GRAPHS
        shape = self.shapes.of_tokens(tokens, decode)
        reason = self.ladder.eager_reason(shape)
        return (0 if reason else shape.tokens), reason

    def launch(self, step: StepInput) -> None:
        """Queue one step; nothing is waited for."""
        started = time.perf_counter()
        if self.host is not None:
            self.host.swap(step.copy_out, step.copy_in)
        slot = self.program.outbox.claim()
        changes = self.program.rows.grow(step)
        shape = self.program.inbox.send_if_steady(step)
        entries, rows, epochs = None, step.rows, step.epochs
        if shape is not None:
            if changes.size:
                self.program.inbox.send_changes(slot, changes)
            special = self._special and self._asks_for_more(step, None)
        else:
            shape = self._send(slot, step, changes)
            entries = sampling_entries(step.samples)
            if entries is not None:
                rows, epochs = rows[entries], epochs[entries]
            special = self._asks_for_more(step, entries)
            self._filtered = bool(self.program.sampler.filtered[rows].any())
        self._special = special
        is_chosen = self._run(shape, step, special)
        logprobs = None if is_chosen else self._choose(slot, shape, step, entries)
        self.program.outbox.fetch(slot)
        host_us = (time.perf_counter() - started) * 1e6
        self.pending.append(PendingStep(step.step, slot, rows, epochs, entries, logprobs, host_us))

    def poll(self, block: bool) -> list[StepOutput]:
        """Finished steps in launch order. With ``block`` wait for at least one if any is in flight."""
        pending, outbox = self.pending, self.program.outbox
        if block and pending:
            outbox.wait(pending[0].slot)
        done = []
        while pending and outbox.has_arrived(pending[0].slot):
            step = pending.popleft()
            done.append(step.output(outbox, self._last_end))
            self._last_end = outbox.stamps(step.slot)[1]
        return done

    def _send(self, slot: int, step: StepInput, changes: Int32) -> Shape:
        """Bring a whole step to the device."""
        program = self.program
        if len(self.pending) >= SLOTS - 1:
            raise RuntimeError(f"more than {SLOTS - 1} steps in flight")
        program.rows.admit(step.admits)
        program.sampler.admit(step.admits, program.rows.tokens)
        if len(changes) > program.inbox.capacity:
            program.rows.write_tables(changes)
            changes = NO_CHANGES
        shape = self.shapes.of(step) if self.shapes else exact_shape(step)
        program.inbox.send(slot, step, shape, changes)
        return shape

    def _run(self, shape: Shape, step: StepInput, special: bool) -> bool:
        """Replay the graph of the step, or run it eagerly without one. Whether its ids are what the rows ask for."""
        filtered = shape._replace(filtered=self._filtered and not special)
        captured = self.ladder.captured if self.ladder else {}
        for wanted in (filtered, shape):
            if wanted in captured:
                captured[wanted].replay()
                return not special and wanted.filtered == self._filtered
        width = None  # padded steps: all blocks, so that kernels are compiled for one width
        if self.shapes is None:
            width = -(-int((step.starts + step.num_tokens).max()) // self.program.rows.block_size)
        self.program.run(filtered, width, draw=not special)
        return not special

    def _asks_for_more(self, step: StepInput, entries: Int32 | None) -> bool:
        rows, positions = _sampled(step, entries)
        return self.program.sampler.asks_for_more(rows, positions)

    def _choose(self, slot: int, shape: Shape, step: StepInput, entries: Int32 | None) -> Logprobs | None:
        """Choose the tokens of a launched step by all that its rows ask for, from the logits that it left."""
        program, known = self.program, self.program.inbox.entries(shape)
        rows, positions = _sampled(step, entries)
        which: slice | torch.Tensor = slice(len(rows))
        if entries is not None:
            which = torch.from_numpy(entries).to(program.logits.device, non_blocking=True)
        seats, places = known.rows[which], known.starts[which]  # close_step moved starts to where the token stands
        choice = program.sampler.choose(program.logits[which], seats, places, rows, positions)
        program.rows.tokens[seats, places] = choice.ids
        program.outbox.write(slot, which, choice.ids)
        return None if choice.logprobs is None else logprobs_to_host(choice.logprobs)


def _sampled(step: StepInput, entries: Int32 | None) -> tuple[Int32, Int32]:
    """Rows that sample, and the position of the token that each of them gets."""
    ends = step.starts + step.num_tokens
    return (step.rows, ends) if entries is None else (step.rows[entries], ends[entries])
