"""What a step costs the host: the whole engine loop over a worker that computes nothing. Needs no GPU.

Configurations are measured in turn, a few steps of each at a time, so that whatever else the machine does falls on all
of them alike; growth is then a ratio of medians of the same minutes.
"""

import gc
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass

import numpy as np

from engine.clock import Clock
from engine.config import EngineConfig, SchedulingConfig
from engine.engine import Engine
from engine.limits import Limits
from engine.request import SamplingParams
from engine.step import Eager, StepInput, StepOutput
from engine.trace.recorder import Recorder, Sink
from engine.workload.drive import Progress, silent

VOCAB = 1000
BLOCK_SIZE = 16
PROMPTS = (16, 32)  # tokens: block boundaries of the rows fall on different steps
STEPS = 900  # as many as 16,384 blocks hold for 256 rows
ROUND = 50  # steps of one configuration before the next has its turn
SETTLE = 3  # steps before these, not counted: they find the processor's caches full of another configuration
WARM_UP = 12  # steps before all others: Python specialises its bytecode, arrays get their size
SPARE = 80  # tokens of a row for the steps that are not counted

FORMULAS: dict[str, str] = {
    "schedule_us": "schedule() with block manager and step arrays, median",
    "schedule_p99_us": "the same, 99th percentile",
    "apply_us": "results taken in: tokens, ends, records, median",
    "step_us": "Engine.step() without the device, median",
    "step_p99_us": "the same, 99th percentile",
    "p999_over_p50": "99.9th percentile over the median of step_us (garbage collector off, as in the engine's process)",
}


@dataclass(frozen=True, slots=True)
class Load:
    """One configuration: rows that decode, requests that wait, blocks of the pool, and whether the trace is written."""

    rows: int = 256
    waiting: int = 0
    blocks: int = 16_384
    record: bool = False


DEFAULTS = (
    Load(64),
    Load(256),
    Load(1024, blocks=65_536),
    Load(waiting=100_000),
    Load(blocks=1_000_000),
    Load(record=True),
)


class NoModel:
    """The ``Worker`` protocol without a device: every row gets the same token at once."""

    def __init__(self) -> None:
        self._done: deque[StepOutput] = deque()

    def launch(self, step: StepInput) -> None:
        """Answer at once."""
        rows, epochs = step.rows, step.epochs
        if not step.samples.all():
            rows, epochs = rows[step.samples != 0], epochs[step.samples != 0]
        self._done.append(StepOutput(step.step, rows, epochs, np.ones(len(rows), np.int32)))

    def poll(self, block: bool = True) -> list[StepOutput]:
        """The oldest step."""
        return [self._done.popleft()] if block and self._done else []

    def prepare(self) -> bool:
        """Nothing to prepare."""
        return False

    def graph_for(self, tokens: int, decode: bool) -> tuple[int, Eager]:
        """There are no graphs."""
        return 0, Eager.NO_GRAPHS


class _NoText:
    """Stands for the tokenizer."""

    def piece_bytes(self, token: int) -> bytes:
        return b"x"


class _Forget(Sink):
    """A sink that keeps nothing: what is measured is the writing."""

    def write(self, data: bytes) -> None:
        pass


class _Timed:
    """One engine in steady decode, and the times of its steps in ns."""

    def __init__(self, load: Load, steps: int) -> None:
        limits = SchedulingConfig(
            pool_blocks=load.blocks,
            block_size=BLOCK_SIZE,
            max_num_seqs=load.rows,
            token_budget=max(8192, load.rows),
            max_model_len=PROMPTS[1] + steps + SPARE,
            prefix_cache=False,
            steps_in_flight=1,
        )
        text, clock = _NoText(), Clock()
        recorder = Recorder([_Forget()] if load.record else [], clock, text.piece_bytes)
        allowed = Limits(VOCAB, limits.max_model_len, load.blocks * BLOCK_SIZE, frozenset())
        self.load = load
        self.engine = Engine(EngineConfig(limits), NoModel(), text, recorder, allowed, clock)
        self.times: dict[str, list[int]] = {"schedule": [], "apply": [], "step": []}
        self._submit(load, limits.max_model_len - PROMPTS[1])
        while self.engine.scheduler.roster.prefilling or not self.engine.scheduler.roster.running:
            self.engine.step()
        for _ in range(WARM_UP):
            self.engine.step()
        self._watch("schedule")
        self._watch("apply")

    def _submit(self, load: Load, max_tokens: int) -> None:
        draw = np.random.default_rng(0)
        params = SamplingParams(max_tokens=max_tokens, temperature=0, ignore_eos=True)
        for length in draw.integers(*PROMPTS, load.rows + load.waiting).tolist():
            self.engine.submit(draw.integers(0, VOCAB, length).tolist(), params)

    def _watch(self, name: str) -> None:
        """Time every call of a method of the scheduler."""
        method, times = getattr(self.engine.scheduler, name), self.times[name]

        def timed(*arguments: object) -> object:
            started = time.perf_counter_ns()
            result = method(*arguments)
            times.append(time.perf_counter_ns() - started)
            return result

        setattr(self.engine.scheduler, name, timed)

    def turn(self) -> None:
        """One turn: ``ROUND`` steps that count."""
        for _ in range(SETTLE):
            self.engine.step()
        for name in ("schedule", "apply"):
            del self.times[name][-SETTLE:]
        times = self.times["step"]
        for _ in range(ROUND):
            started = time.perf_counter_ns()
            self.engine.step()
            times.append(time.perf_counter_ns() - started)

    def entry(self) -> dict:
        us = {name: np.array(times) / 1e3 for name, times in self.times.items()}
        step = us["step"]
        return {
            **asdict(self.load),
            "schedule_us": float(np.median(us["schedule"])),
            "schedule_p99_us": float(np.percentile(us["schedule"], 99)),
            "apply_us": float(np.median(us["apply"])),
            "step_us": float(np.median(step)),
            "step_p99_us": float(np.percentile(step, 99)),
            "p999_over_p50": float(np.percentile(step, 99.9) / np.median(step)),
        }


def host_costs(loads: Sequence[Load] = DEFAULTS, steps: int = STEPS, progress: Progress = silent) -> dict:
    """Measure every load over ``steps`` steps of pure decode, in turns of ``ROUND``.

    Returns:
        ``loads``: one entry per load (``FORMULAS``); ``growth``: step time over that of the plain load of 256 rows.
    """
    engines = []
    for load in loads:
        progress(f"{load.rows} rows, {load.waiting:,} waiting, {load.blocks:,} blocks", 0.0)
        engines.append(_Timed(load, steps))
    with _collector_off():
        for turn in range(steps // ROUND):
            progress("steps", turn * ROUND / steps)
            for engine in engines:
                engine.turn()
    entries = [engine.entry() for engine in engines]
    return {"loads": entries, "growth": growth(entries)}


def growth(entries: Sequence[dict]) -> dict[str, float]:
    """Median step time of each load that differs from ``Load()`` in one thing, over that of ``Load()``."""
    plain = asdict(Load())
    base = next((entry for entry in entries if entry.items() >= plain.items()), None)
    found: dict[str, float] = {}
    for entry in entries if base else ():
        changed = [name for name in plain if entry[name] != plain[name]]
        if len(changed) == 1:
            name = changed[0]
            found[f"{name} {plain[name]} -> {entry[name]}"] = entry["step_us"] / base["step_us"]
    return found


@contextmanager
def _collector_off() -> Iterator[None]:
    """As in the engine's process: what exists is frozen, and nothing is collected between steps."""
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()
