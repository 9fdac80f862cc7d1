"""What ``bench kernels`` measured, beside what the operation must do: bytes, operations, floors, and fused traffic.

Everything here follows from the shape and the ceilings of the same run; nothing is measured, no torch is loaded. A
kernel has three floors: one launch, its bytes at the bandwidth, its operations at the matmul peak. The largest binds.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

HEAD_DIM = 128  # of all attention and RoPE cases
ITEM = 2  # bytes of bf16
HEAD_8_BITS = HEAD_DIM + 2  # bytes of a quantised key or value of one head: its numbers and its scale
TILE_QUERIES = 128  # of ``kernels.prefill`` for one query head per KV head


@dataclass(frozen=True, slots=True)
class Work:
    """Bytes that one call must move, each tensor once, and its operations (an exponential counts as one)."""

    bytes: int
    flops: int

    @property
    def intensity(self) -> float:
        """Operations per byte."""
        return self.flops / self.bytes


@dataclass(frozen=True, slots=True)
class Ceilings:
    """Of the run: bytes/s, FLOP/s of a matrix product, seconds of a launch (0: not measured)."""

    bandwidth: float
    flops: float
    launch_s: float


@dataclass(frozen=True, slots=True)
class Dot:
    """One kernel at one shape: its work, its microseconds, its three floors in microseconds, its peers."""

    kernel: str
    shape: str
    work: Work
    us: float
    floors: Mapping[str, float]  # launch, bandwidth, compute
    peers: Mapping[str, float]
    error: float

    @property
    def binds(self) -> str:
        """Which floor is the largest."""
        return max(self.floors, key=self.floors.__getitem__)

    @property
    def of_limit(self) -> float:
        """The largest floor over the time: 1 is as fast as this machine allows."""
        return self.floors[self.binds] / self.us

    def flops_per_s(self, us: float) -> float:
        """Rate of this work done in ``us``."""
        return self.work.flops / us * 1e6


def ceilings(run: Mapping) -> Ceilings:
    """The ceilings of a ``bench kernels`` document. The launch is that of a graph where the run had one."""
    measured = run["meta"]["config"]["ceilings"]
    launch_s = measured.get("launch_graph_s") or measured.get("launch_eager_s") or 0.0
    return Ceilings(max(measured["copy_bandwidth"], measured["read_bandwidth"]), measured["matmul_flops"], launch_s)


def of_references(run: Mapping) -> bool:
    """Whether the run timed the plain PyTorch references, as on a CPU: then it says nothing about a fused kernel."""
    measured = run["meta"]["config"]["ceilings"]
    return bool(measured.get("launch_eager_s")) and not measured.get("launch_graph_s")


def dots(run: Mapping) -> list[Dot]:
    """Every entry whose work is known, in the order of the run."""
    roof = ceilings(run)
    return [dot for entry in run["results"] if (dot := _dot(entry, roof)) is not None]


def unplaced(run: Mapping) -> list[str]:
    """Kernels of the run that no formula of this module knows."""
    return sorted({entry["kernel"] for entry in run["results"] if work(entry["kernel"], entry["shape"]) is None})


def work(kernel: str, shape: str) -> Work | None:
    """Bytes and operations of a case of ``kernel_cases``, read from its name and shape; None for an unknown one."""
    formula = WORK.get(kernel.partition(" ")[0] if kernel.startswith("linear") else kernel)
    found = formula and formula[0].fullmatch(shape)
    return formula[1](*map(int, found.groups())) if found else None


def _dot(entry: Mapping, roof: Ceilings) -> Dot | None:
    done = work(entry["kernel"], entry["shape"])
    if done is None:
        return None
    floors = {
        "launch": roof.launch_s * 1e6,
        "bandwidth": done.bytes / roof.bandwidth * 1e6,
        "compute": done.flops / roof.flops * 1e6,
    }
    return Dot(entry["kernel"], entry["shape"], done, entry["us"], floors, entry["peers"], entry["max_rel_err"])


def _norm(tokens: int, hidden: int) -> Work:
    """Reads x and residual, writes residual and y; add, square, sum, two products."""
    return Work(4 * ITEM * tokens * hidden, 5 * tokens * hidden)


def _silu(tokens: int, width: int) -> Work:
    """Reads gate and up, writes one of their size; exponential, add, division, product, sign."""
    return Work(3 * ITEM * tokens * width, 5 * tokens * width)


def _rope(tokens: int, q_heads: int, kv_heads: int) -> Work:
    """Reads q, k and v, writes as much; four operations of the norm and three of the rotation, not for v."""
    heads = q_heads + 2 * kv_heads
    return Work(2 * ITEM * tokens * heads * HEAD_DIM, 7 * tokens * (q_heads + kv_heads) * HEAD_DIM)


def _quantised_rope(tokens: int, q_heads: int, kv_heads: int) -> Work:
    """Reads q, k and v, writes q and the 8-bit k and v; a division, a comparison and two roundings of k and v more."""
    moved = ITEM * (2 * q_heads + 2 * kv_heads) * HEAD_DIM + 2 * kv_heads * HEAD_8_BITS
    return Work(tokens * moved, 7 * tokens * (q_heads + kv_heads) * HEAD_DIM + 4 * tokens * 2 * kv_heads * HEAD_DIM)


def _quantised_decode(rows: int, context: int, q_heads: int, kv_heads: int) -> Work:
    """As ``_decode``, from 8-bit keys and values."""
    moved = rows * (2 * context * kv_heads * HEAD_8_BITS + 2 * ITEM * q_heads * HEAD_DIM)
    return Work(moved, 4 * rows * context * q_heads * HEAD_DIM)


def _decode(rows: int, context: int, q_heads: int, kv_heads: int) -> Work:
    """Reads k and v of the contexts, q, and writes as much as q; two products of every query with every key."""
    return _attention(rows, 1, context, q_heads, kv_heads, rows * context)


def _prefill(rows: int, context: int, q_heads: int, kv_heads: int) -> Work:
    """As decode, but with as many queries as keys, of which each sees half."""
    return _attention(rows, context, context, q_heads, kv_heads, rows * context * (context + 1) // 2)


def _attention(rows: int, queries: int, context: int, q_heads: int, kv_heads: int, pairs: int) -> Work:
    moved = 2 * ITEM * rows * (context * kv_heads + queries * q_heads) * HEAD_DIM
    return Work(moved, 4 * pairs * q_heads * HEAD_DIM)


def score_bytes(context: int) -> int:
    """The score matrix of one head over a prompt, bf16: memory that tiles do not need."""
    return ITEM * context * context


def naive_bytes(context: int) -> int:
    """Of one head over a prompt, causal mask or not: the score matrix is written, read by the softmax, which writes
    weights that are read again; q, k, v and the answer once. bf16."""
    return 4 * score_bytes(context) + 4 * ITEM * context * HEAD_DIM


def tiled_bytes(context: int) -> int:
    """The same in tiles of ``TILE_QUERIES`` queries: q and the answer once, k and v once for each tile that may see
    them, half of all on average."""
    tiles = -(-context // TILE_QUERIES)
    return ITEM * HEAD_DIM * (2 * context + 2 * TILE_QUERIES * tiles * (tiles + 1) // 2)


def _linear(tokens: int, inputs: int, outputs: int) -> Work:
    """Reads the weight; with so few tokens all else is small and not counted."""
    return Work(ITEM * inputs * outputs, 2 * tokens * inputs * outputs)


def _quant(outputs_bytes: Callable[[int], int]) -> Callable[[int, int, int], Work]:
    """Reads the weight, ``outputs_bytes`` of K for each output: scales are among them."""
    return lambda tokens, inputs, outputs: Work(outputs * outputs_bytes(inputs), 2 * tokens * inputs * outputs)


def _sample(operations: int) -> Callable[[int, int], Work]:
    """Reads each logit once, and does ``operations`` with it."""
    return lambda rows, vocab: Work(ITEM * rows * vocab, operations * rows * vocab)


_PLAIN = re.compile(r"(\d+) x (\d+)")
_HEADS = re.compile(r"(\d+) rows x (\d+), (\d+)/(\d+) heads(?:, consecutive blocks)?")
_ROPE = re.compile(r"(\d+) tokens, (\d+)/(\d+) heads")
_PRODUCT = re.compile(r"M=(\d+), (\d+) -> (\d+)")
WORK: dict[str, tuple[re.Pattern, Callable[..., Work]]] = {
    "add_rmsnorm": (_PLAIN, _norm),
    "silu_mul": (_PLAIN, _silu),
    "rope_write_kv": (_ROPE, _rope),
    "rope_write_kv int8": (_ROPE, _quantised_rope),
    "rope_write_kv fp8": (_ROPE, _quantised_rope),
    "decode": (_HEADS, _decode),
    "decode int8": (_HEADS, _quantised_decode),
    "decode fp8": (_HEADS, _quantised_decode),
    "prefill": (_HEADS, _prefill),
    "linear": (_PRODUCT, _linear),
    "quant int8": (_PRODUCT, _quant(lambda inputs: inputs + 4)),
    "quant fp8": (_PRODUCT, _quant(lambda inputs: inputs + 4)),
    "quant int4": (_PRODUCT, _quant(lambda inputs: inputs // 2 + 2 * inputs // 128)),
    "sample greedy": (_PLAIN, _sample(1)),
    "sample draw": (_PLAIN, _sample(6)),
    "sample top-k, top-p": (_PLAIN, _sample(6)),
}


def best_peer(peers: Mapping[str, float]) -> tuple[str, float] | None:
    """The fastest peer and its microseconds."""
    return min(peers.items(), key=lambda pair: pair[1]) if peers else None


def by_kernel(found: Sequence[Dot]) -> dict[str, list[Dot]]:
    """The dots of each kernel; the products of all layers count as one kernel."""
    groups: dict[str, list[Dot]] = {}
    for dot in found:
        groups.setdefault(dot.kernel.partition(" ")[0], []).append(dot)
    return groups
