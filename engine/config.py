"""Every setting of the engine, with its default and its allowed values.

Two small groups: ``SchedulingConfig`` is all that deciding needs (no model, no device), ``WorkerConfig`` is all that
computing needs. ``EngineConfig`` joins them. ``validate`` raises ``InvalidRequest`` naming the field.
"""

from dataclasses import asdict, dataclass, field
from typing import Literal, get_args

from engine.errors import InvalidRequest

Batching = Literal["in-flight", "dynamic", "static", "static-shrinking"]
Capacity = Literal["max-utilization", "guaranteed-no-evict"]
Chunking = Literal["fcfs", "equal"]
Preemption = Literal["lifo", "lowest-priority", "cheapest"]
Eviction = Literal["lru", "priority", "flat-lru"]
QueueOrder = Literal["priority", "deadline"]
Swap = Literal["never", "always", "cheaper"]
KVDtype = Literal["auto", "bf16", "fp16", "fp32", "int8", "fp8"]
Dtype = Literal["auto", "bf16", "fp16", "fp32"]
Quantize = Literal["int8", "fp8", "int4"]
Shape = Literal["tiny", "qwen3-0.6b", "llama-3.2-1b", "llama-3.1-8b", "qwen3-8b"]
POLICIES = {  # field of ``SchedulingConfig`` -> its values
    "batching": Batching,
    "capacity": Capacity,
    "chunking": Chunking,
    "preemption": Preemption,
    "queue_order": QueueOrder,
    "eviction": Eviction,
    "swap": Swap,
}


@dataclass(frozen=True)
class SchedulingConfig:
    """Limits and policies of one step."""

    pool_blocks: int = 64  # usable blocks; block 0 is reserved on top of them
    block_size: int = 16  # tokens per block
    max_num_seqs: int = 8  # rows
    token_budget: int = 64  # tokens per step
    max_model_len: int = 2048  # prompt + output
    watermark: float = 0.01  # share of the pool kept free when admitting (rounded up to blocks; 0 when nothing runs)
    batching: Batching = "in-flight"
    capacity: Capacity = "max-utilization"
    chunking: Chunking = "fcfs"
    chunked_prefill: bool = True  # False: a prompt runs whole in one step or waits
    preemption: Preemption = "lifo"  # who loses its blocks
    queue_order: QueueOrder = "priority"  # lower first, then arrival; deadline: priority is ms from arrival until due
    aging_s: float = 0.0  # queue_order priority: seconds of waiting that are worth one level; 0: waiting counts nothing
    prefix_cache: bool = True
    eviction: Eviction = "lru"  # whose content goes first
    wait_for_prefix: bool = False  # in-flight: wait for a shared prefix that another request computes now
    host_blocks: int = 0  # blocks of host memory for evicted content; 0, or without prefix_cache: it is lost
    swap: Swap = "cheaper"  # whether content comes back from the host: cheaper computes it again where that takes less
    swap_us_per_token: float = 0.0  # swap cheaper: KV bytes of a token / bandwidth of the link to the host
    prefill_us_per_token: float = 0.0  # swap cheaper: time of a full prefill step / its tokens
    window_ms: float = 10.0  # dynamic batching: how long the gate collects
    preferred_sizes: tuple[int, ...] = (4, 8)  # dynamic batching: release early at these sizes
    steps_in_flight: int = 0
    graph_buckets: tuple[int, ...] = ()  # padded token counts that a chunk is cut to; () when nothing is captured
    kv_identity: str = ""  # model and KV dtype, from the worker: all but the tokens and a salt that changes the KV

    def validate(self) -> "SchedulingConfig":
        """Return self, or raise ``InvalidRequest`` for the first field out of range."""
        at_least = {"pool_blocks": 1, "max_num_seqs": 1, "token_budget": 1, "max_model_len": 2}
        for name, low in at_least.items():
            _check(name, getattr(self, name), getattr(self, name) >= low, f"a whole number of at least {low}")
        _check("block_size", self.block_size, 1 <= self.block_size <= 256, "1 to 256")
        _check("watermark", self.watermark, 0 <= self.watermark < 1, "0 <= watermark < 1")
        _check("window_ms", self.window_ms, self.window_ms >= 0, "0 or more milliseconds")
        _check("host_blocks", self.host_blocks, self.host_blocks >= 0, "0 (none) or more blocks")
        for name in ("swap_us_per_token", "prefill_us_per_token"):
            _check(name, getattr(self, name), 0 <= getattr(self, name) < float("inf"), "0 or more microseconds")
        _check("aging_s", self.aging_s, 0 <= self.aging_s < float("inf"), "0 (none) or more seconds")
        _check("steps_in_flight", self.steps_in_flight, 0 <= self.steps_in_flight <= 8, "0 to 8")
        for name, kind in POLICIES.items():
            _check(
                name, getattr(self, name), getattr(self, name) in get_args(kind), f"one of {', '.join(get_args(kind))}"
            )
        _check(
            "token_budget",
            self.token_budget,
            self.token_budget >= self.max_num_seqs,
            f"at least max_num_seqs ({self.max_num_seqs})",
        )
        return self


@dataclass(frozen=True)
class WorkerConfig:
    """Which model runs where, and in which formats."""

    model: str = "bundled"  # "bundled", a local folder, or a hub id
    random_weights: Shape | None = None  # a shape with random weights instead of a checkpoint
    device: str = "auto"  # auto, cpu, cuda, cuda:N
    dtype: Dtype = "auto"  # fp32 on a CPU, bf16 on CUDA (fp16 below compute capability 8.0)
    kv_dtype: KVDtype = "auto"  # as dtype; int8 and fp8 keep one scale per token and head
    memory_fraction: float = 0.9  # of the memory free after the weights, when pool_blocks is not given
    seed: int = 0  # of random weights
    quantize: Quantize | None = None  # format of the layers' products; None: as dtype

    def validate(self) -> "WorkerConfig":
        """Return self, or raise ``InvalidRequest`` for the first field out of range."""
        for name, kind in (("dtype", Dtype), ("kv_dtype", KVDtype)):
            _check(
                name, getattr(self, name), getattr(self, name) in get_args(kind), f"one of {', '.join(get_args(kind))}"
            )
        formats, shapes = get_args(Quantize), get_args(Shape)
        _check("quantize", self.quantize, self.quantize in (None, *formats), f"one of {', '.join(formats)}")
        _check(
            "random_weights", self.random_weights, self.random_weights in (None, *shapes), f"one of {', '.join(shapes)}"
        )
        known = self.device in ("auto", "cpu", "cuda") or self.device.removeprefix("cuda:").isdigit()
        _check("device", self.device, known, "auto, cpu, cuda or cuda:N")
        _check("memory_fraction", self.memory_fraction, 0 < self.memory_fraction <= 1, "0 < memory_fraction <= 1")
        return self


@dataclass(frozen=True)
class EngineConfig:
    """The whole configuration of one engine. ``scheduling.pool_blocks`` and ``max_model_len`` are made
    concrete by the worker before the scheduler is built (see ``Worker.fit``)."""

    scheduling: SchedulingConfig = field(default_factory=SchedulingConfig)
    worker: WorkerConfig = field(default_factory=WorkerConfig)
    pool_blocks: int | None = 64  # None: as many as memory_fraction allows
    record: bool = True  # keep the trace
    seed: int = 0  # draws the seed of a request that brings none

    def validate(self) -> "EngineConfig":
        """Return self, or raise ``InvalidRequest`` for the first field out of range."""
        _check(
            "pool_blocks",
            self.pool_blocks,
            self.pool_blocks is None or self.pool_blocks >= 1,
            "at least 1, or none for automatic",
        )
        self.scheduling.validate()
        self.worker.validate()
        return self

    def to_dict(self) -> dict:
        """Plain values for the RUN record and for ``meta.config`` of a benchmark."""
        return asdict(self)


def _check(name: str, value: object, ok: bool, allowed: str) -> None:
    if not ok:
        raise InvalidRequest(name, allowed, value)
