"""CUDA graphs: a step as one launch instead of several hundred.

A graph is captured per padded shape and holds the whole step (``whole_step``). Two kinds: decode (every entry one
token, as many entries as tokens) and mixed (chunks and decodes together). Padding has row -1: no slot and no context,
so it writes nothing and reads nothing.

The ladder of shapes is climbed smallest first: serving starts after the first few, the rest is captured while the
engine is idle. A step without a graph runs eagerly, padded all the same so that kernels are compiled for few shapes,
and says why. All graphs share one pool of memory, reserved at the size of the largest step before the first capture.
"""

import logging
import time
from bisect import bisect_left
from collections import deque
from dataclasses import dataclass

import torch

from engine.step import Eager, StepInput
from engine.worker.step_batch import Shape
from engine.worker.whole_step import WholeStep

log = logging.getLogger(__name__)
DECODE = (1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 160, 192, 224, 256)  # then powers of 2
MIXED = (32, 64, 128, 256, 384, 512, 768)  # then 1 and 1.5 times powers of 2
POWERS = [1 << power for power in range(9, 18)]
AT_ONCE = 8  # tokens: decode shapes up to here are captured before serving starts


class Shapes:
    """The padded shapes of an engine with these limits."""

    def __init__(self, max_num_seqs: int, token_budget: int) -> None:
        self.max_num_seqs = max_num_seqs
        self.decodes = _up_to(max_num_seqs, (*DECODE, *POWERS))
        large = [size for power in POWERS[1:] for size in (power, 3 * power // 2)]
        self.mixed = _up_to(token_budget, (*MIXED, *large))

    def of(self, step: StepInput) -> Shape:
        """The smallest shape that holds ``step``."""
        return self.of_tokens(step.total_tokens, step.total_tokens == step.rows.size)

    def of_tokens(self, tokens: int, decode: bool) -> Shape:
        """The smallest shape for so many tokens."""
        if decode:
            bucket = self.decodes[bisect_left(self.decodes, tokens)]
            return Shape(bucket, bucket, 1)
        bucket = self.mixed[bisect_left(self.mixed, tokens)]
        return Shape(bucket, min(bucket, self.decodes[-1]), bucket)

    def all(self) -> list[Shape]:
        """Every shape to capture: decode shapes, each plain and with filters, then mixed ones, smallest first.

        A mixed step whose rows filter chooses behind its graph: the prompt in it outweighs that by far.
        """
        decodes = [self.of_tokens(tokens, True) for tokens in self.decodes]
        both = [shape._replace(filtered=filtered) for shape in decodes for filtered in (False, True)]
        return both + [self.of_tokens(tokens, False) for tokens in self.mixed]


def exact_shape(step: StepInput) -> Shape:
    """The shape of a step that is not padded."""
    return Shape(step.total_tokens, step.rows.size, int(step.num_tokens.max()))


@dataclass(slots=True)
class Rung:
    """What is known of one captured shape."""

    seconds: float
    num_bytes: int


class Ladder:
    """The graphs of one worker: captured, still to be captured, and given up."""

    def __init__(self, program: WholeStep, shapes: Shapes, reserve_bytes: int) -> None:
        self.program, self.shapes = program, shapes
        self.captured: dict[Shape, torch.cuda.CUDAGraph] = {}
        self.rungs: dict[Shape, Rung] = {}
        self.failed: dict[Shape, str] = {}
        self.pending: deque[Shape] = deque(shapes.all())
        self.total = len(self.pending)
        self.num_bytes = 0
        self._reserve_bytes = reserve_bytes
        self._reserved: torch.cuda.CUDAGraph | None = None

    def climb(self) -> bool:
        """Capture the next shape; False when none is left. Nothing may be in flight. A failure is kept, not raised."""
        if not self.pending:
            return False
        shape = self.pending.popleft()
        started, free = time.perf_counter(), _free_bytes()
        try:
            self.captured[shape] = self._capture(shape)
        except RuntimeError as error:  # out of memory, or a kernel that cannot be captured: the step runs eagerly
            self.failed[shape] = str(error).strip().splitlines()[0]
            log.warning("no graph for %s tokens: %s", shape.tokens, self.failed[shape])
        torch.cuda.synchronize()
        used = max(0, free - _free_bytes())
        self.num_bytes += used
        self.rungs[shape] = Rung(time.perf_counter() - started, used)
        return True

    def climb_at_once(self) -> None:
        """Capture what serving starts with."""
        while self.pending and self.pending[0].max_query_len == 1 and self.pending[0].tokens <= AT_ONCE:
            self.climb()

    def eager_reason(self, shape: Shape) -> Eager:
        """Why a step of this shape runs without a graph."""
        if shape in self.captured:
            return Eager.NONE
        return Eager.CAPTURE_FAILED if shape in self.failed else Eager.NOT_CAPTURED_YET

    def describe(self) -> list[dict]:
        """One entry per size and kind tried: tokens, kind, seconds, megabytes, error. (Hits are in the trace.)"""
        entries: dict[Shape, dict] = {}
        for shape, rung in self.rungs.items():
            empty = {"tokens": shape.tokens, "kind": "decode" if shape.max_query_len == 1 else "mixed"}
            empty |= {"seconds": 0.0, "mb": 0.0, "error": None}
            entry = entries.setdefault(shape._replace(filtered=False), empty)
            entry["seconds"] = round(entry["seconds"] + rung.seconds, 3)
            entry["mb"] = round(entry["mb"] + rung.num_bytes / 2**20, 1)
            entry["error"] = entry["error"] or self.failed.get(shape)
        return list(entries.values())

    def _capture(self, shape: Shape) -> torch.cuda.CUDAGraph:
        if self._reserved is None:
            self._reserved = self._reserve()
        self.program.rest(shape)
        self.program.run(shape)  # compiles what capture must not compile
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._reserved.pool(), capture_error_mode="thread_local"):
            self.program.run(shape)
        self.program.rest(shape)
        return graph

    def _reserve(self) -> torch.cuda.CUDAGraph:
        """A graph whose only use is that its memory is the pool of all others, in one piece for the largest of them."""
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            torch.empty(self._reserve_bytes, dtype=torch.uint8, device=self.program.logits.device)[:1].zero_()
        return graph


def _up_to(limit: int, sizes: tuple[int, ...]) -> list[int]:
    """Ascending sizes of which the last is ``limit`` or the first above it."""
    return [*sizes[: bisect_left(sizes, limit)], limit]


def _free_bytes() -> int:
    return torch.cuda.mem_get_info()[0]
