"""The record kinds of the trace: what the engine says about itself.

Each kind is a dataclass; the annotation of a field says how ``codec`` stores it, so adding a field is one line here
(and a new ``SCHEMA_VERSION``). The engine writes only what changed: rows that stay in decode cost nothing, so 256
steady rows take about 200 bytes a step, and about 1.7 KB with their token ids.
"""

import json
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Annotated, ClassVar, NamedTuple

SCHEMA_VERSION = 3  # 2: no host blocks. 1: a preempted request stood in front of all, eviction went by age alone

I32 = Annotated[int, "i"]
I64 = Annotated[int, "q"]
U64 = Annotated[int, "Q"]
F32 = Annotated[float, "f"]
Rows = Annotated[list[int], "H*"]  # row numbers, below 65,536
Ints = Annotated[list[int], "i*"]
Bytes = Annotated[bytes, "B*"]


class Kind(IntEnum):
    """Kinds of record."""

    RUN = 1
    ARRIVE = 2
    REFUSE = 3
    ADMIT = 4
    LEAVE = 5
    STEP = 6
    APPLY = 7
    TIME = 8
    KV = 9
    CMD = 10
    PIECES = 11
    KEYFRAME = 12


class Reason(IntEnum):
    """Why the head of the queue was not admitted, or a running row sat out. ``need`` and ``have`` beside it."""

    NONE = 0
    NO_FREE_BLOCKS = 1  # blocks needed, blocks available
    WATERMARK = 2  # blocks needed plus watermark, blocks available
    RESERVED_FOR_RUNNING = 3  # blocks needed, blocks not promised to running requests (GUARANTEED_NO_EVICT, static)
    MAX_NUM_SEQS = 4  # rows needed, rows there are
    TOKEN_BUDGET = 5  # tokens needed, tokens left in this step
    GATE_CLOSED = 6  # static: rows still running; dynamic: until (us from now), collected so far
    PREEMPTED_THIS_STEP = 7  # no admission in a step that preempted
    WAITING_FOR_PREFIX = 8  # tokens of it that come, the request that computes them
    PRIORITY = 9  # blocks needed plus one for each running request that comes before it, blocks available
    RESULT_PENDING = 10  # steps in flight must be applied first
    DRAINING = 11
    TOO_LONG = 12  # REFUSE only: tokens needed, tokens of context
    NEVER_FITS = 13  # REFUSE only: blocks needed, blocks in the pool


class Cause(IntEnum):
    """Why a request left its row."""

    LENGTH = 1
    EOS = 2
    STOP = 3  # a stop string or a stop token id
    ABORT = 4
    PREEMPT = 5
    ERROR = 6
    GROUP_END = 7  # static padded: the row of an answer that ended earlier is given back


class Op(IntEnum):
    """What a CMD or KV record says."""

    PAUSE = 1
    RESUME = 2
    STEP = 3
    CONFIG = 4
    STALL = 5
    NOTE = 6
    EVICT = 20  # reclaimable blocks lost their content
    RESET = 21  # the whole prefix cache was dropped, host blocks included
    SWAP_OUT = 22  # evicted content went to the host: block, host slot, block, host slot, ...
    SWAP_IN = 23  # the next ADMIT takes content back from the host: host slot, block, host slot, block, ...
    SWAP_DROP = 24  # these host slots gave up their content: the pool has it again, or it never arrived


@dataclass(slots=True)
class Run:
    """Starts a run: config, seed, model, device, driver, versions, commit, pool, memory map (JSON)."""

    KIND: ClassVar[Kind] = Kind.RUN
    info: Bytes

    @property
    def data(self) -> dict:
        """The JSON as a dict."""
        return json.loads(self.info)


@dataclass(slots=True)
class Arrive:
    """A request entered the queue. TTFT starts here."""

    KIND: ClassVar[Kind] = Kind.ARRIVE
    request: I32
    max_tokens: I32
    priority: I32
    seed: I64
    name: Bytes
    prompt_ids: Ints


@dataclass(slots=True)
class Refuse:
    """A request that can never run was turned away (it had arrived)."""

    KIND: ClassVar[Kind] = Kind.REFUSE
    request: I32
    reason: I32
    need: I32
    have: I32


@dataclass(slots=True)
class Admit:
    """A request got a row. Its table starts with ``hit_blocks``; ``hit_tokens`` of KV need not be computed."""

    KIND: ClassVar[Kind] = Kind.ADMIT
    request: I32
    row: I32
    epoch: I32
    resumed: I32  # 1 when it was preempted before
    hit_tokens: I32
    hit_blocks: Ints


@dataclass(slots=True)
class Leave:
    """A request ended or lost its row.

    ``keeps_row`` 1: static padded, the answer ended but the row goes on computing until GROUP_END. Its blocks are
    freed, tail first (``flat-lru``: head first), unless it keeps its row. A preempted request goes back into the queue,
    in front of its equals.
    """

    KIND: ClassVar[Kind] = Kind.LEAVE
    request: I32
    row: I32  # -1: it was not running
    epoch: I32  # the new epoch
    cause: I32
    keeps_row: I32 = 0
    late: I32 = 0  # row-steps of it still in flight, whose results will be dropped
    for_request: I32 = -1  # preempt: who needed the blocks
    lost_tokens: I32 = 0  # preempt: computed tokens to compute again
    need: I32 = 0  # preempt: blocks needed
    have: I32 = 0  # preempt: blocks available


@dataclass(slots=True)
class Step:
    """One scheduled step. Lists hold changes only.

    Every member of the decode set advances by one token unless listed in ``sat_out``; ``joined`` rows enter the set
    with this step and advance too. A row leaves the set by a LEAVE record (without keeps_row). Chunk i runs
    ``chunk_tokens[i]`` tokens of ``chunk_rows[i]`` from ``chunk_starts[i]``; ``chunk_lasts[i]`` 1 when it samples.
    """

    KIND: ClassVar[Kind] = Kind.STEP
    budget: I32
    used: I32  # tokens
    free: I32  # blocks on the free list without content
    reclaimable: I32  # blocks cached and unreferenced
    waiting: I32  # requests waiting or preempted, after admission
    bucket: I32 = 0  # padded tokens of the graph, 0 when eager
    eager_reason: I32 = 0  # engine.step.Eager
    head: I32 = -1  # the request at the head of the queue, -1 when it is empty
    head_reason: I32 = 0  # Reason; everybody behind waits behind the head
    head_need: I32 = 0
    head_have: I32 = 0
    joined: Rows = field(default_factory=list)
    sat_out: Rows = field(default_factory=list)
    chunk_rows: Rows = field(default_factory=list)
    chunk_starts: Ints = field(default_factory=list)
    chunk_tokens: Ints = field(default_factory=list)
    chunk_lasts: Rows = field(default_factory=list)
    block_rows: Rows = field(default_factory=list)  # block_ids[j] was appended to the table of block_rows[j]
    block_ids: Ints = field(default_factory=list)
    hashed: Ints = field(default_factory=list)  # blocks that became content-addressed


@dataclass(slots=True)
class Apply:
    """Results of a step reached the host: one entry per token; rows whose results were stale are in ``dropped``.

    A row that was padded (static) or whose request had left is in ``dropped``, not in ``rows``.
    """

    KIND: ClassVar[Kind] = Kind.APPLY
    of_step: I32
    rows: Rows = field(default_factory=list)
    token_ids: Ints = field(default_factory=list)
    dropped: Rows = field(default_factory=list)


@dataclass(slots=True)
class Time:
    """Microseconds of a step. Outside the fold's equality."""

    KIND: ClassVar[Kind] = Kind.TIME
    of_step: I32
    gpu_us: F32 = 0.0
    idle_us: F32 = 0.0
    schedule_us: F32 = 0.0
    launch_us: F32 = 0.0
    apply_us: F32 = 0.0


@dataclass(slots=True)
class KV:
    """Blocks whose content went away (EVICT: these; RESET: all), or moved between pool and host (``blocks`` as
    ``Op.SWAP_OUT`` and its neighbours say)."""

    KIND: ClassVar[Kind] = Kind.KV
    op: I32
    blocks: Ints = field(default_factory=list)


@dataclass(slots=True)
class Cmd:
    """What somebody asked of the engine."""

    KIND: ClassVar[Kind] = Kind.CMD
    op: I32
    value: I64 = 0
    note: Bytes = b""


@dataclass(slots=True)
class Pieces:
    """Text of token ids, written the first time an id appears, so that a recording can be read without its tokenizer.

    ``data`` is the UTF-8 bytes of all pieces joined; ``lengths`` cuts it. A piece may be part of a character.
    """

    KIND: ClassVar[Kind] = Kind.PIECES
    token_ids: Ints
    lengths: Ints
    data: Bytes


@dataclass(slots=True)
class Keyframe:
    """The whole state as JSON: a reader that lost records starts again from here."""

    KIND: ClassVar[Kind] = Kind.KEYFRAME
    info: Bytes

    @property
    def data(self) -> dict:
        """The JSON as a dict."""
        return json.loads(self.info)


Event = Run | Arrive | Refuse | Admit | Leave | Step | Apply | Time | KV | Cmd | Pieces | Keyframe
EVENT_TYPES: tuple[type, ...] = (Run, Arrive, Refuse, Admit, Leave, Step, Apply, Time, KV, Cmd, Pieces, Keyframe)


class Record(NamedTuple):
    """An event with its place: ``seq`` counts records, ``t_ns`` is the engine clock (still while paused)."""

    seq: int
    t_ns: int
    step: int
    event: Event
