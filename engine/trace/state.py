"""What the engine knew after each record, folded from the trace alone.

``State`` applied to the records of one run, in order, equals the engine's own snapshot after every STEP and APPLY. It
is a pure function of the records, so live, pause, step, step back, scrub and replay are one code with another cursor.

A copy shares its requests with the original until either changes one (``own``); token ids are append-only and shared.
"""

from collections import deque
from operator import attrgetter
from typing import TypeVar

from engine.trace.events import Record
from engine.trace.fold import FOLD
from engine.trace.pool_view import PoolView
from engine.trace.views import Computes, Fetch, Happening, RequestView, StepBar, StepView, Times, Totals

HISTORY_STEPS, EVENTS_KEPT = 120, 30
Setting = TypeVar("Setting", int, float, str)
_COPIED = (
    "requests",
    "waiting",
    "running",
    "rows",
    "decode_rows",
    "in_flight",
    "pending",
    "host",
    "fetching",
    "history",
    "events",
    "ended",
)
_request_fields = attrgetter(*RequestView.__slots__)
_step_fields = attrgetter(*StepView.__slots__)
_totals_fields = attrgetter(*Totals.__slots__)


class State:
    """Everything a page may show at one place of a run."""

    def __init__(self) -> None:
        self.seq, self.t_ns = -1, 0
        self.run: dict = {}
        self.partial = False  # True: begins at a keyframe, totals count from there
        self.paused = False
        self.requests: dict[int, RequestView] = {}
        self.waiting: list[int] = []  # queue order, preempted ones included
        self.running: list[int] = []  # holders of a row, admission order
        self.rows: dict[int, int] = {}  # row -> request
        self.decode_rows: dict[int, None] = {}  # an ordered set: each member advances by one token a step
        self.in_flight: dict[int, tuple[int, Computes]] = {}  # step -> launched at (ns), what it computes
        self.pool = PoolView(0)
        self.host: dict[int, tuple[int, int]] = {}  # slot -> whose content, place in its table; oldest first
        self.fetched: list[int] = []  # blocks that the next ADMIT gets from the host
        self.fetching: dict[int, tuple[Fetch, ...]] = {}  # step -> whose KV it brings from the host
        self.step = StepView()
        self.head = (-1, 0, 0, 0)  # request, reason, need, have: as of the last step
        self.times = Times()
        self.totals = Totals()
        self.pending: list[Happening] = []  # decided for the step to come
        self.history: deque[StepBar] = deque(maxlen=HISTORY_STEPS)
        self.events: deque[Happening] = deque(maxlen=EVENTS_KEPT)
        self.last_preemption: Happening | None = None
        self.ended: deque[int] = deque()  # ended requests still remembered, oldest first
        self.pieces: dict[int, bytes] = {}
        self.last_apply_ns = 0
        self.mine: set[int] = set()  # requests whose view no other state holds

    def apply(self, record: Record) -> None:
        """Move on by one record."""
        self.seq, self.t_ns = record.seq, record.t_ns
        FOLD[type(record.event)](self, record.event)

    def copy(self) -> "State":
        """An independent state at the same place."""
        other = State.__new__(State)
        other.__dict__.update(self.__dict__)
        for name in (*_COPIED, "pool"):
            setattr(other, name, getattr(self, name).copy())
        other.step = StepView(*_step_fields(self.step))
        other.totals = Totals(*_totals_fields(self.totals))
        self.mine, other.mine = set(), set()
        return other

    def own(self, request: int) -> RequestView:
        """The view of a request, safe to change."""
        view = self.requests[request]
        if request not in self.mine:
            view = RequestView(*_request_fields(view))
            view.blocks = view.blocks[:]
            self.requests[request] = view
            self.mine.add(request)
        return view

    def snapshot(self) -> dict:
        """What must equal the scheduler's ``snapshot()``."""
        refs, hashed = self.pool.refs, self.pool.hashed
        return {
            "step": self.step.number,
            "waiting": list(self.waiting),
            "running": list(self.running),
            "requests": {i: _standing(self.requests[i]) for i in (*self.waiting, *self.running)},
            "free": list(self.pool.free_order()),
            "refs": {block: count for block, count in enumerate(refs) if count},
            "hashed": [block for block, content in enumerate(hashed) if content],
            "levels": self.pool.levels(),
            "host": list(self.host),
            "head": self.head,
        }

    def text(self, token_ids: list[int]) -> str:
        """The recorded text of token ids; an id without a recorded piece is shown as its number."""
        return b"".join(self.pieces.get(token, b"<%d>" % token) for token in token_ids).decode(errors="replace")

    def queue_key(self, request: int) -> int:
        """What the queue is ordered by, the lowest first: priority, or arrival plus what the priority is worth (aging,
        deadlines)."""
        view = self.requests[request]
        if self.limit("queue_order", "priority") == "deadline":
            return view.arrived_ns + view.priority * 1_000_000
        aging_ns = round(self.limit("aging_s", 0.0) * 1e9)
        return view.arrived_ns + view.priority * aging_ns if aging_ns else view.priority

    def limit(self, name: str, default: Setting = 0) -> Setting:
        """A scheduling setting of this run, e.g. ``token_budget``."""
        return scheduling_config(self.run).get(name, default)

    @property
    def block_size(self) -> int:
        """Tokens per block."""
        return self.limit("block_size", 16)


def scheduling_config(run: dict) -> dict:
    """The scheduling settings inside the JSON of a RUN record."""
    config = run.get("config", run)
    return config.get("scheduling", config)


def _standing(view: RequestView) -> tuple:
    computed, scheduled = view.num_computed, view.num_scheduled
    return view.state, view.row, view.epoch, computed, scheduled, view.num_tokens, tuple(view.blocks)
