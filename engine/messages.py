"""What travels through the pipe between the app and the engine process. Both ends are this code and this machine."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.answers import Logprobs
from engine.config import EngineConfig
from engine.limits import Limits

LOADING = 0  # the ticket of progress while the model loads; calls count from 1


@dataclass(frozen=True, slots=True)
class Start:
    """First message to the child: what to load, where the trace goes, which worker computes (``module:class``)."""

    config: EngineConfig
    ring: Path
    worker: str


@dataclass(frozen=True, slots=True)
class Call:
    """Asks the child to do something. ``Answer`` and later deltas carry the same ticket."""

    ticket: int
    method: str
    args: tuple = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """A call is done, or failed with an error that is raised in the caller's thread."""

    ticket: int
    value: Any = None
    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a load or a long call is: words, and a fraction of 0 to 1."""

    ticket: int
    text: str
    fraction: float


@dataclass(frozen=True, slots=True)
class Ready:
    """The model is loaded: the concrete configuration, its limits and the facts of the RUN record."""

    config: EngineConfig
    limits: Limits
    info: dict


@dataclass(frozen=True, slots=True)
class Status:
    """Whether the engine stands still."""

    paused: bool


PieceTuple = tuple[int, int, str, list[int], str | None, Logprobs | None]


@dataclass(frozen=True, slots=True)
class Pieces:
    """What one step added to all answers: (ticket of the submit call, then the fields of ``Delta`` but the name).

    Plain tuples, because pickling objects would take three times as long, in the engine's process and at every step.
    """

    items: list[PieceTuple]


@dataclass(frozen=True, slots=True)
class Failed:
    """The child is about to end for this reason."""

    error: Exception


Message = Answer | Progress | Ready | Status | Pieces | Failed
