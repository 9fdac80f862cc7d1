"""The fusion ledger: which tensors separate kernels read and write, which the fused one, and what that predicts.

The prediction is bytes over bytes; the measured ratio comes from one run of ``bench kernels`` (PyTorch eager over the
fused kernel); the share of a step is by time (Amdahl). No torch is loaded.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from engine.workload.kernel_ledger import Ceilings, ceilings, of_references

ROWS, CONTEXT = 256, 1024  # of the step that shares are given for
LAYER = ((4096, 1024), (1024, 2048), (6144, 1024), (1024, 3072))  # products of a layer of qwen3-0.6b: outputs, inputs
SHARED = {  # kernel -> (its entry at ROWS tokens of that model, calls in a layer)
    "add_rmsnorm": (f"{ROWS} x 1024", 2),
    "silu_mul": (f"{ROWS} x 3072", 1),
    "rope_write_kv": (f"{ROWS} tokens, 16/8 heads", 1),
    "decode": (f"{ROWS} rows x {CONTEXT}, 16/8 heads", 1),
}


@dataclass(frozen=True, slots=True)
class Move:
    """One tensor read or written by one kernel. ``size`` in units of the ledger (see ``Fusion.unit``)."""

    kernel: str
    tensor: str
    written: bool
    size: float


@dataclass(frozen=True, slots=True)
class Fusion:
    """A fused kernel beside the separate kernels that it replaces."""

    kernel: str
    unit: str  # what a size of 1 is
    separate: tuple[Move, ...]
    fused: tuple[Move, ...]

    @property
    def predicted(self) -> float:
        """Bytes of the separate kernels over bytes of the fused one."""
        return total(self.separate) / total(self.fused)


def total(moves: tuple[Move, ...]) -> float:
    """Size of all moves."""
    return sum(move.size for move in moves)


def fusions(q_heads: int = 16, kv_heads: int = 8) -> list[Fusion]:
    """The three fusions of memory-bound kernels. Weights of the norms are a few kilobytes and left out."""
    return [_norm(), _silu(), _rope(q_heads, kv_heads)]


def _moves(text: str, sizes: Mapping[str, float] | None = None) -> tuple[Move, ...]:
    """``"add: <x <residual >residual; norm: ..."``: ``<`` read, ``>`` written."""
    moves = []
    for part in text.split(";"):
        kernel, _, tensors = part.strip().partition(": ")
        for each in tensors.split():
            moves.append(Move(kernel, each[1:], each[0] == ">", (sizes or {}).get(each[1:], 1)))
    return tuple(moves)


def _norm() -> Fusion:
    """The norm reads its input twice: for the sum of squares, and to scale. A fused row waits in registers instead."""
    separate = _moves("add: <x <residual >residual; norm: <residual <residual >y")
    return Fusion("add_rmsnorm", "T x H", separate, _moves("add_rmsnorm: <x <residual >residual >y"))


def _silu() -> Fusion:
    separate = _moves("silu: <gate >s; mul: <s <up >y")
    return Fusion("silu_mul", "T x I", separate, _moves("silu_mul: <gate <up >y"))


def _rope(q_heads: int, kv_heads: int) -> Fusion:
    """In units of a k head; q has more of them. v is only copied."""
    sizes = {"q": q_heads / kv_heads}
    separate = "norm: <q <q >q <k <k >k; rope: <q >q <k >k; write: <k >K-cache <v >V-cache"
    fused = "rope_write_kv: <q <k <v >q >K-cache >V-cache"
    return Fusion("rope_write_kv", "T x Hkv x D", _moves(separate, sizes), _moves(fused, sizes))


def measured(run: Mapping, kernel: str) -> dict[str, float]:
    """Shape -> PyTorch eager over the fused kernel, of those shapes where the peer ran. Nothing where no fused kernel
    ran."""
    if of_references(run):
        return {}
    entries = [entry for entry in run["results"] if entry["kernel"] == kernel and "eager" in entry["peers"]]
    return {entry["shape"]: entry["peers"]["eager"] / entry["us"] for entry in entries}


def layer_us(run: Mapping) -> dict[str, float] | None:
    """Microseconds of the parts of one layer at ``ROWS`` rows: kernels as measured, products at the ceilings of the
    run. None when the run lacks a shape. The layer takes at least the sum, so that a share of it is a limit."""
    known = {(entry["kernel"], entry["shape"]): entry["us"] for entry in run["results"]}
    if any((kernel, shape) not in known for kernel, (shape, _) in SHARED.items()):
        return None
    parts = {kernel: count * known[kernel, shape] for kernel, (shape, count) in SHARED.items()}
    return parts | {"products": sum(_product_us(*size, ceilings(run)) for size in LAYER)}


def _product_us(outputs: int, inputs: int, roof: Ceilings) -> float:
    moved = 2 * (outputs * inputs + ROWS * (outputs + inputs))
    return 1e6 * max(moved / roof.bandwidth, 2 * ROWS * outputs * inputs / roof.flops)


@dataclass(frozen=True, slots=True)
class Share:
    """Part of the layer's time in the fused kernel, and how much longer the layer is without the fusion (Amdahl)."""

    of_layer: float
    slower_without: float


def share(run: Mapping, kernel: str) -> Share | None:
    """The share of a fused kernel in a step of ``ROWS`` rows; None when the run does not know it."""
    parts, ratio = layer_us(run), measured(run, kernel).get(SHARED[kernel][0])
    if parts is None or ratio is None:
        return None
    of_layer = parts[kernel] / sum(parts.values())
    return Share(of_layer, 1 + of_layer * (ratio - 1))
