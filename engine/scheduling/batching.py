"""When requests may enter, and when finished rows leave: the two policies that make a batch static or in-flight.

=================  ====================  =============
batching           gate                  retire
=================  ====================  =============
in-flight          ``Always``            ``AtOnce``
static-shrinking   ``WhenIdle``          ``AtOnce``
static             ``WhenIdle``          ``AtGroupEnd``
dynamic            ``Window``            ``AtGroupEnd``
=================  ====================  =============
"""

from collections.abc import Sequence
from typing import Protocol

from engine.config import SchedulingConfig
from engine.request import Request, RequestState
from engine.trace.events import Cause

NO_LIMIT = 1 << 30


class Gate(Protocol):
    """Says how many waiting requests may enter now."""

    forms_groups: bool  # who enters together is prefilled as a whole before anybody decodes

    def admissions(self, waiting: Sequence[Request], idle: bool, now_ns: int) -> int:
        """How many may enter; 0 when closed. ``idle``: no row is held and no step is in flight."""

    def closed(self, waiting: Sequence[Request], rows_held: int, now_ns: int) -> tuple[int, int]:
        """The two numbers of ``Reason.GATE_CLOSED``."""

    def opens_at_ns(self, waiting: Sequence[Request]) -> int | None:
        """When it opens by time alone, provided nothing runs; None when time does not matter."""


class Always(Gate):
    """Requests join at every step."""

    forms_groups = False

    def admissions(self, waiting: Sequence[Request], idle: bool, now_ns: int) -> int:
        return NO_LIMIT

    def closed(self, waiting: Sequence[Request], rows_held: int, now_ns: int) -> tuple[int, int]:
        return 0, rows_held

    def opens_at_ns(self, waiting: Sequence[Request]) -> int | None:
        return None


class WhenIdle(Always):
    """A group enters when the previous one has left and nothing is in flight."""

    forms_groups = True

    def admissions(self, waiting: Sequence[Request], idle: bool, now_ns: int) -> int:
        return NO_LIMIT if idle else 0


class Window(WhenIdle):
    """Collects for ``window_ms`` from the oldest arrival on; a preferred size (or a full batch) is released early.

    As in Triton Inference Server's dynamic batcher: before the window ends, the largest preferred size reached
    enters and the rest waits on; at its end everybody enters.
    """

    def __init__(self, config: SchedulingConfig) -> None:
        self.window_ns = round(config.window_ms * 1e6)
        self.sizes = sorted({*config.preferred_sizes, config.max_num_seqs})

    def admissions(self, waiting: Sequence[Request], idle: bool, now_ns: int) -> int:
        if not (idle and waiting):
            return 0
        if now_ns >= self.opens_at_ns(waiting):
            return NO_LIMIT
        return max((size for size in self.sizes if size <= len(waiting)), default=0)

    def closed(self, waiting: Sequence[Request], rows_held: int, now_ns: int) -> tuple[int, int]:
        if rows_held:
            return 0, rows_held
        return max(0, self.opens_at_ns(waiting) - now_ns) // 1000, len(waiting)

    def opens_at_ns(self, waiting: Sequence[Request]) -> int | None:
        return min(request.arrived_ns for request in waiting) + self.window_ns if waiting else None


class Retire(Protocol):
    """Says when the row of an ended answer is given back."""

    def keeps_row(self, request: Request, cause: Cause, running: Sequence[Request]) -> bool:
        """Whether the row of ``request``, which ends now, goes on computing (padded)."""

    def group_end(self, running: Sequence[Request]) -> list[Request]:
        """The padded rows to give back now, in admission order."""


class AtOnce(Retire):
    """A row leaves with its answer."""

    def keeps_row(self, request: Request, cause: Cause, running: Sequence[Request]) -> bool:
        return False

    def group_end(self, running: Sequence[Request]) -> list[Request]:
        return []


class AtGroupEnd(Retire):
    """A row stays until the last answer of its group has ended. Aborts and errors leave at once in any case."""

    def keeps_row(self, request: Request, cause: Cause, running: Sequence[Request]) -> bool:
        if cause in (Cause.ABORT, Cause.ERROR):
            return False
        return any(is_live(other) for other in running if other is not request)

    def group_end(self, running: Sequence[Request]) -> list[Request]:
        return [] if any(map(is_live, running)) else list(running)


def is_live(request: Request) -> bool:
    """Whether the answer of a request that holds a row has not ended yet (otherwise the row is padded)."""
    return request.state is RequestState.RUNNING


def policies(config: SchedulingConfig) -> tuple[Gate, Retire]:
    """Gate and retire of a batching mode."""
    return {
        "in-flight": lambda: (Always(), AtOnce()),
        "static-shrinking": lambda: (WhenIdle(), AtOnce()),
        "static": lambda: (WhenIdle(), AtGroupEnd()),
        "dynamic": lambda: (Window(config), AtGroupEnd()),
    }[config.batching]()
