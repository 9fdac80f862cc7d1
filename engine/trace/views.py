"""The values a folded state is made of: a request, a step, running totals. Plain data and derived lengths."""

from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

# The numbers of engine.request.RequestState, which this part may not import (a test compares them).
WAITING, RUNNING, PREEMPTED, FINISHED, ABORTED, REFUSED = range(6)
STATE_NAMES = ("waiting", "running", "preempted", "finished", "aborted", "refused")


def label(request: int) -> str:
    """The letter a page shows for a request: A..Z, then A1..Z1, A2.. (empty for a negative id)."""
    if request < 0:
        return ""
    return chr(ord("A") + request % 26) + (str(request // 26) if request >= 26 else "")


def request_of(text: str) -> int | None:
    """The request that a label (``R7``) or a number (``199``) names; None when it is neither."""
    if text.isascii() and text.isdigit():
        return int(text)
    letter, round_ = text[:1].upper(), text[1:]
    if not ("A" <= letter <= "Z" and (not round_ or (round_.isascii() and round_.isdigit()))):
        return None
    return ord(letter) - ord("A") + 26 * int(round_ or 0)


@dataclass(slots=True)
class RequestView:
    """One request as the trace knows it. Times are engine ns, -1 until they happened.

    ``token_ids`` is append-only and shared by all states of a run; the first ``num_tokens`` of it belong to this one.
    ``computed_peak`` is the most KV it ever had, below which computing again is *recomputing*.
    """

    id: int
    name: str
    prompt_length: int
    max_tokens: int
    priority: int
    seed: int
    token_ids: list[int]
    num_tokens: int
    arrived_ns: int
    state: int = WAITING
    row: int = -1
    epoch: int = 0
    num_computed: int = 0
    num_scheduled: int = 0
    num_cached: int = 0
    num_swapped: int = 0  # blocks of the last admission that came from the host
    computed_peak: int = 0
    blocks: list[int] = field(default_factory=list)
    admitted_ns: int = -1
    first_token_ns: int = -1
    last_token_ns: int = -1
    ended_ns: int = -1
    cause: int = 0
    preemptions: int = 0
    lost_tokens: int = 0
    computed_total: int = 0  # tokens computed in prefill chunks and decode steps, over all admissions
    cached_total: int = 0  # prefix hits, over all admissions
    recomputed: int = 0

    @property
    def num_output(self) -> int:
        """Tokens generated so far."""
        return self.num_tokens - self.prompt_length

    @property
    def output_ids(self) -> list[int]:
        """The generated tokens."""
        return self.token_ids[self.prompt_length : self.num_tokens]

    @property
    def has_ended(self) -> bool:
        """True when its answer is complete (it may still hold a padded row)."""
        return self.state >= FINISHED


class Chunk(NamedTuple):
    """Several tokens of one row in one step; ``samples`` when the last one gives the next token."""

    row: int
    request: int
    start: int
    tokens: int
    samples: bool


class RowKind(IntEnum):
    """What a row did in a step."""

    DECODE = 0
    PREFILL = 1
    PADDED = 2  # its answer had ended; it ran for its group


Computes = dict[int, tuple[int, int, int, RowKind]]  # row -> request, epoch, num_computed once applied, what it did
Fetch = tuple[int, int, int]  # request, epoch, num_computed once applied


class Happening(NamedTuple):
    """One line of "what happened".

    ``kind``: preempt (``need`` blocks, ``have`` available, for ``other``, ``lost`` tokens, ``freed`` blocks), admit,
    resume and hit (``need`` hit tokens in ``have`` blocks), swap_in (``need`` of ``have`` hit blocks), evict and
    swap_out (``need`` blocks), finish and abort (``need`` tokens, cause ``have``), refuse (``need``, ``have``, reason
    ``other``), pause, resume_cmd.
    """

    step: int
    kind: str
    request: int
    need: int = 0
    have: int = 0
    other: int = -1
    lost: int = 0
    freed: int = 0


class StepBar(NamedTuple):
    """One bar of the history: rows and tokens of a step. ``ms`` is 0 until its results arrived.

    ``head`` is the request that was stopped at the head of the queue (-1: none), for ``reason`` (``need``, ``have``).
    """

    step: int
    decode: int
    prefill: int
    padded: int
    preemptions: int
    ms: float
    head: int = -1
    reason: int = 0
    need: int = 0
    have: int = 0


@dataclass(slots=True)
class StepView:
    """What the last step ran, and what was decided before it. Lists are replaced, never changed in place."""

    number: int = 0
    t_ns: int = 0
    budget: int = 0
    used: int = 0
    bucket: int = 0
    eager_reason: int = 0
    ran: Computes = field(default_factory=dict)
    sat_out: list[tuple[int, int]] = field(default_factory=list)  # (row, request)
    chunks: list[Chunk] = field(default_factory=list)
    happened: list[Happening] = field(default_factory=list)

    def rows_that(self, kind: RowKind) -> int:
        """How many rows decoded, prefilled or ran padded."""
        return [entry[3] for entry in self.ran.values()].count(kind)


@dataclass(slots=True)
class Times:
    """Microseconds of the last step whose TIME record arrived. Outside the fold's equality."""

    of_step: int = 0
    gpu_us: float = 0.0
    idle_us: float = 0.0
    schedule_us: float = 0.0
    launch_us: float = 0.0
    apply_us: float = 0.0


@dataclass(slots=True)
class Totals:
    """Running totals of a run.

    Row-steps (one row for one step): decode + prefill + padded + late + idle = rows x steps. ``late`` ones ran although
    the answer had ended meanwhile; their results were dropped. Tokens: ``prefill_tokens`` were computed for the first
    time, ``recomputed_tokens`` again after a preemption, ``cached_tokens`` not at all (prefix hit).
    """

    decode: int = 0
    prefill: int = 0
    padded: int = 0
    late: int = 0
    idle: int = 0
    prefill_tokens: int = 0
    recomputed_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    preemptions: int = 0
    evictions: int = 0
    swapped_out: int = 0  # blocks copied to the host
    swapped_in: int = 0  # blocks copied back from it
    arrived: int = 0
    admitted: int = 0
    finished: int = 0
    aborted: int = 0
    refused: int = 0

    def since(self, earlier: "Totals") -> "Totals":
        """What was added after ``earlier``."""
        return Totals(*(getattr(self, name) - getattr(earlier, name) for name in self.__slots__))
