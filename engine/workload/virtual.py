"""An engine without a device: the real scheduler and KV manager, a worker whose steps only take time, a virtual clock.

Nothing else is put in its place, so that the trace of such a run is a trace like any other; its RUN record says that it
is simulated.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from engine.clock import Clock
from engine.config import EngineConfig, SchedulingConfig, WorkerConfig
from engine.engine import Engine
from engine.limits import Limits
from engine.step import Eager, StepInput, StepOutput
from engine.trace.recorder import Recorder

StepSeconds = Callable[[StepInput], float]
GivenAnswers = Mapping[int, Sequence[int]]  # request -> the tokens that it is answered with
ANY_TOKEN = 2**31 - 1  # token ids of a workload are whatever its own model has


class VirtualTime:
    """Nanoseconds that pass only when somebody lets them."""

    def __init__(self) -> None:
        self.now_ns = 0

    def __call__(self) -> int:
        """The present."""
        return self.now_ns

    def advance_to(self, when_ns: int) -> None:
        """Go on to ``when_ns``; never back."""
        self.now_ns = max(self.now_ns, when_ns)

    def sleep(self, seconds: float) -> None:
        """Let time pass, one nanosecond at least."""
        self.now_ns += max(1, round(seconds * 1e9))


class VirtualWorker:
    """The ``Worker`` protocol: steps take ``seconds_of`` time, one after the other, and answer with given tokens.

    Args:
        answers: tokens of each request; without them every token is 0, which costs nothing and shares no prefix with
            what a later prompt may continue.
    """

    def __init__(
        self,
        seconds_of: StepSeconds,
        scheduling: SchedulingConfig,
        time: VirtualTime,
        answers: GivenAnswers | None = None,
    ) -> None:
        self.time = time
        self.memory_map, self.graphs = {}, []
        self._seconds_of, self._answers = seconds_of, answers
        self.reset(scheduling)

    def reset(self, scheduling: SchedulingConfig) -> None:
        """Start afresh under another configuration."""
        self.scheduling = scheduling
        self._free_ns = 0  # when the device has done all that was launched
        self._done: deque[tuple[int, StepOutput]] = deque()
        self._rows: dict[int, tuple[Sequence[int], int]] = {}  # row -> answer, prompt length

    def launch(self, step: StepInput) -> None:
        """Queue one step behind those before it."""
        seconds = self._seconds_of(step)
        start = max(self.time.now_ns, self._free_ns)
        idle_us = (start - self._free_ns) / 1e3
        self._free_ns = start + round(seconds * 1e9)
        rows, epochs = step.rows, step.epochs
        sampled = step.samples == 1
        if not sampled.all():
            rows, epochs = rows[sampled], epochs[sampled]
        output = StepOutput(step.step, rows, epochs, self._tokens(step, sampled), None, seconds * 1e6, 0.0, idle_us)
        self._done.append((self._free_ns, output))

    def poll(self, block: bool = True) -> list[StepOutput]:
        """What is done by now; with ``block`` the clock goes on until the oldest step is."""
        if block and self._done:
            self.time.advance_to(self._done[0][0])
        found = []
        while self._done and self._done[0][0] <= self.time.now_ns:
            found.append(self._done.popleft()[1])
        return found

    def prepare(self) -> bool:
        """Nothing to capture."""
        return False

    def graph_for(self, tokens: int, decode: bool) -> tuple[int, Eager]:
        """As ``scheduling.graph_buckets`` says, which are those of steps with chunks."""
        buckets = () if decode else self.scheduling.graph_buckets
        index = bisect_left(buckets, tokens)
        return (buckets[index], Eager.NONE) if index < len(buckets) else (0, Eager.NO_GRAPHS)

    def warm_up(self) -> None:
        """Nothing to compile."""

    def close(self) -> None:
        """Nothing to give back."""

    def _tokens(self, step: StepInput, sampled: np.ndarray) -> np.ndarray:
        """The next token of each sampled row, int32."""
        if self._answers is None:
            return np.zeros(int(sampled.sum()), np.int32)
        for admit in step.admits:
            self._rows[admit.row] = self._answers.get(admit.request, ()), admit.prompt_length
        ends = (step.starts + step.num_tokens)[sampled].tolist()
        return np.array([self._token(row, end) for row, end in zip(step.rows[sampled].tolist(), ends)], np.int32)

    def _token(self, row: int, position: int) -> int:
        answer, prompt_length = self._rows[row]
        index = position - prompt_length
        return answer[index] if 0 <= index < len(answer) else 0


class NoText:
    """The tokenizer of an engine that nobody reads."""

    vocab_size, eos_ids = ANY_TOKEN, frozenset()

    def piece_bytes(self, token: int) -> bytes:
        """No bytes."""
        return b""


def virtual_engine(
    worker: VirtualWorker,
    recorder: Recorder,
    clock: Clock,
    seed: int = 0,
    info: dict | None = None,
) -> Engine:
    """An ``Engine`` on a virtual worker. ``info``: what its RUN record says besides the configuration."""
    scheduling = worker.scheduling.validate()
    config = EngineConfig(scheduling, WorkerConfig(), scheduling.pool_blocks, True, seed)
    limits = Limits(ANY_TOKEN, scheduling.max_model_len, scheduling.pool_blocks * scheduling.block_size)
    return Engine(config, worker, NoText(), recorder, limits, clock, None, info)
