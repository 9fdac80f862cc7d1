"""Brings a step's choice back to the host without waiting for it: ``poll`` is the only place that waits."""

import time
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from engine.step import Int32, StepOutput
from engine.worker.sampler import Choice, Logprobs


@dataclass(slots=True)
class StepTimer:
    """Marks begin and end of a step on the device; a plain clock where there is no device."""

    begin: torch.cuda.Event | None
    end: torch.cuda.Event | None
    started: float

    @classmethod
    def start(cls, device: torch.device) -> "StepTimer":
        """Mark the begin now."""
        if device.type != "cuda":
            return cls(None, None, time.perf_counter())
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        return cls(begin, end, time.perf_counter())

    def gpu_us(self) -> float:
        """Device microseconds of a finished step, 0 on a CPU."""
        return self.begin.elapsed_time(self.end) * 1e3 if self.begin else 0.0


class PendingStep:
    """A launched step: its ids are on their way to the host."""

    def __init__(self, step: int, rows: Int32, epochs: Int32, choice: Choice | None, timer: StepTimer) -> None:
        self.step, self.rows, self.epochs, self.timer = step, rows, epochs, timer
        self.ids = to_host(choice.ids) if choice else torch.empty(0, dtype=torch.int32)
        self.logprobs = _logprobs_to_host(choice.logprobs) if choice and choice.logprobs else None
        if timer.end is not None:
            timer.end.record()
        self.host_us = (time.perf_counter() - timer.started) * 1e6

    @property
    def is_done(self) -> bool:
        """True when the ids have arrived."""
        return self.timer.end is None or self.timer.end.query()

    def wait(self) -> None:
        """Return when the ids have arrived."""
        if self.timer.end is not None:
            self.timer.end.synchronize()

    def output(self) -> StepOutput:
        """The step's answer; call when it is done."""
        ids = self.ids.numpy().astype(np.int32)
        logprobs = self.logprobs.to_dicts(ids) if self.logprobs else None
        return StepOutput(self.step, self.rows, self.epochs, ids, logprobs, self.timer.gpu_us(), self.host_us)


def to_host(tensor: Tensor) -> Tensor:
    """A copy in pinned memory, complete when the step's end event is."""
    if tensor.device.type == "cpu":
        return tensor
    host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
    return host.copy_(tensor, non_blocking=True)


def _logprobs_to_host(found: Logprobs) -> Logprobs:
    parts = (to_host(part) for part in (found.best_ids, found.best, found.chosen))
    return Logprobs(found.entries, found.wanted, *parts)
