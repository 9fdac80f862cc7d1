"""Host times of the steps in flight, and how long the device had nothing to do: what a TIME record says."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from engine.step import StepOutput
from engine.trace.events import Time


@dataclass(slots=True)
class _Launched:
    """Microseconds of one step, known before its results are."""

    idle_us: float  # as the host saw it
    awaited: bool  # the device had, or could have had, work since the step before: idle time counts
    schedule_us: float
    launch_us: float = 0.0


class StepTimes:
    """Steps are scheduled, launched and applied in the same order, so a queue is all it takes.

    Args:
        clock: nanoseconds; stands still while the engine is paused.
    """

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._in_flight: deque[_Launched] = deque()
        self._idle_since: int | None = None

    def scheduled(self, started: int) -> None:
        """A step was planned since ``started``; until then the device may have waited."""
        idle = 0 if self._idle_since is None else started - self._idle_since
        awaited = bool(self._in_flight) or self._idle_since is not None
        self._idle_since = None
        self._in_flight.append(_Launched(idle / 1e3, awaited, (self._clock() - started) / 1e3))

    def launched(self, started: int) -> None:
        """The newest step was launched since ``started``."""
        self._in_flight[-1].launch_us = (self._clock() - started) / 1e3

    def applied(self, output: StepOutput, started: int, more_work: bool) -> Time:
        """The record of the oldest step, whose results were applied since ``started``. The device's own measure of
        its idle time goes before the host's.

        From now on the device waits if nothing is in flight although there is ``more_work``.
        """
        now, step = self._clock(), self._in_flight.popleft()
        self._idle_since = now if more_work and not self._in_flight else None
        apply_us = (now - started) / 1e3
        measured = output.idle_us is not None and step.awaited
        idle_us = output.idle_us if measured else step.idle_us
        return Time(output.step, output.gpu_us, idle_us, step.schedule_us, step.launch_us, apply_us)

    def forget_idle(self) -> None:
        """Time that passed in a pause is nobody's waiting time."""
        self._idle_since = None
