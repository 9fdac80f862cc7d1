"""A launched step until its ids have reached the host."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from engine.step import Int32, StepOutput
from engine.worker.outbox import Outbox
from engine.worker.sampler import Logprobs


@dataclass(slots=True)
class PendingStep:
    """What the host must remember of a step. ``entries``: which of them sample; None: all of them."""

    step: int
    slot: int  # of the outbox
    rows: Int32
    epochs: Int32
    entries: Int32 | None
    logprobs: Logprobs | None
    host_us: float

    def output(self, outbox: Outbox, previous_end: int) -> StepOutput:
        """The step's answer, once it has arrived. ``previous_end``: of the step before, device clock, 0 unknown."""
        ids = outbox.ids(self.slot)
        ids = ids[: len(self.rows)].copy() if self.entries is None else ids[self.entries]
        logprobs = self.logprobs.to_dicts(ids) if self.logprobs else None
        begin, end = outbox.stamps(self.slot)
        idle_us = (begin - previous_end) / 1e3 if begin and previous_end else None
        return StepOutput(self.step, self.rows, self.epochs, ids, logprobs, (end - begin) / 1e3, self.host_us, idle_us)


def logprobs_to_host(found: Logprobs) -> Logprobs:
    """The same in pinned memory, complete when what follows on the stream is."""
    parts = (_to_host(part) for part in (found.best_ids, found.best, found.chosen))
    return Logprobs(found.entries, found.wanted, *parts)


def _to_host(tensor: Tensor) -> Tensor:
    if tensor.device.type == "cpu":
        return tensor
    host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
    return host.copy_(tensor, non_blocking=True)


def sampling_entries(samples: Int32) -> Int32 | None:
    """Which entries sample; None when all do."""
    return None if samples.all() else np.flatnonzero(samples)
