"""Runs a workload on an engine, in this process: submit at the arrival times, step until nothing is left."""

import gc
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from engine.engine import Engine
from engine.request import Request, RequestState
from engine.trace.recorder import Sink
from engine.workload.items import Item

# (overrides of SchedulingConfig, sinks of this run) -> Engine; LoadedModel.new_engine is one.
MakeEngine = Callable[[dict[str, object], Sequence[Sink]], Engine]
Progress = Callable[[str, float], None]  # (what runs, share done of it)
FAIR: dict[str, object] = {"prefix_cache": False}  # no run may profit from what another computed


def silent(what: str, share: float) -> None:
    """A progress that shows nothing."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run produced: token ids of each item, in the items' order, and the seconds it took."""

    outputs: list[list[int]]
    seconds: float
    cached_tokens: int = 0  # prompt tokens that were not computed: 0 in an honest benchmark

    @property
    def tokens(self) -> int:
        """Tokens that were produced (never: asked for)."""
        return sum(map(len, self.outputs))


def drive(
    engine: Engine,
    items: Sequence[Item],
    what: str = "",
    progress: Progress = silent,
    concurrency: int | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> Outcome:
    """Run ``items`` to their end. The time stops when the last result has reached the host.

    Args:
        concurrency: closed loop: an item that is due waits outside until fewer than this many are under way.
        sleep: passes seconds when there is nothing to do (a virtual clock brings its own).

    Raises:
        InvalidRequest, RequestRefused: an item does not fit the engine.
    """
    waiting = deque(sorted(enumerate(items), key=lambda pair: pair[1].arrival_s))
    requests: list[Request | None] = [None] * len(items)
    seconds_between = _throttle(progress, what, len(items))
    while engine.prepare():
        progress("capturing graphs", 0.0)
    with _collector_off():
        start = engine.clock()
        while waiting or engine.has_work:
            _submit_due(engine, waiting, requests, (engine.clock() - start) / 1e9, concurrency)
            if not engine.step():
                sleep(_nap(engine, waiting, (engine.clock() - start) / 1e9))
            seconds_between(requests)
        seconds = (engine.clock() - start) / 1e9
    cached = sum(request.num_cached_tokens for request in requests)
    return Outcome([request.output_ids for request in requests], seconds, cached)


def _submit_due(
    engine: Engine,
    waiting: deque[tuple[int, Item]],
    requests: list[Request | None],
    now_s: float,
    concurrency: int | None,
) -> None:
    while waiting and waiting[0][1].arrival_s <= now_s:
        if concurrency is not None and len(engine.answers) >= concurrency:
            return
        index, item = waiting.popleft()
        requests[index] = engine.submit(item.prompt_ids, item.sampling())


def _nap(engine: Engine, waiting: deque[tuple[int, Item]], now_s: float) -> float:
    """Seconds until the engine or the next arrival can use the time."""
    until_arrival = waiting[0][1].arrival_s - now_s if waiting else 0.0
    return min(engine.nap_s(), until_arrival) if until_arrival > 0 else engine.nap_s()


def _throttle(progress: Progress, what: str, total: int) -> Callable[[list[Request | None]], None]:
    """Report at most ten times a second, and count only then: the loop must not pay for being watched."""
    next_report = time.perf_counter()

    def report(requests: list[Request | None]) -> None:
        nonlocal next_report
        now = time.perf_counter()
        if now >= next_report:
            next_report = now + 0.1
            ended = sum(request is not None and request.state >= RequestState.FINISHED for request in requests)
            progress(what, ended / total)

    return report


@contextmanager
def _collector_off() -> Iterator[None]:
    """No pause of the garbage collector inside a timed run; it works behind it, so that the next run starts clean."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.collect()
