"""What fusion is worth here: chains of element-wise operations, one after the other and in one pass.

On CUDA one pass is the engine's fused kernel: a row stays in registers from the first operation to the last. On a CPU
there is no such kernel; there the same chain runs over a few rows at a time, small enough to stay in the cache, which
saves the same trips to memory.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from engine.workload.drive import Progress, silent
from engine.workload.kernel_bench import time_calls
from kernels.attention import paged_attention
from kernels.rmsnorm import add_rmsnorm
from kernels.silu_mul import silu_mul

EPS = 1e-6
CACHED = 1 << 17  # bytes of one operand that a CPU keeps close while the chain runs over it


@dataclass(frozen=True, slots=True)
class Sizes:
    """One decoder layer: widths, heads, and the tokens of a block."""

    hidden: int = 1024
    intermediate: int = 3072
    query_heads: int = 16
    kv_heads: int = 8
    head_dim: int = 128
    block: int = 16


def norm_chain(device: str, dtype: str, hidden: int, rows: Sequence[int], progress: Progress = silent) -> list[dict]:
    """Residual add and RMSNorm in five operations, and in one pass: ``rows``, ``separate_us``, ``fused_us``."""
    kind, entries = getattr(torch, dtype), []
    with torch.inference_mode():
        for place, count in enumerate(rows):
            progress(f"{count} rows", place / len(rows))
            x, residual = (torch.randn(count, hidden, device=device).to(kind) for _ in range(2))
            weight = torch.ones(hidden, device=device, dtype=kind)
            separate, fused = _norms(x, residual, weight)
            entries.append(_timed(count, separate, fused, device))
    return entries


def swiglu_chain(device: str, dtype: str, width: int, rows: Sequence[int], progress: Progress = silent) -> list[dict]:
    """``silu(gate) * up`` in two operations, and in one pass; entries as of ``norm_chain``."""
    kind, entries = getattr(torch, dtype), []
    with torch.inference_mode():
        for place, count in enumerate(rows):
            progress(f"{count} rows", place / len(rows))
            separate, fused = _gates(torch.randn(count, 2 * width, device=device).to(kind))
            entries.append(_timed(count, separate, fused, device))
    return entries


def layer_parts(device: str, dtype: str, rows: int, context: int, sizes: Sizes = Sizes()) -> list[dict]:
    """The parts of one decoder layer for ``rows`` rows that decode: ``name``, ``calls`` in a layer, ``separate_us`` and
    ``fused_us`` of a call (alike for parts that no fusion touches), and ``memory_bound`` operations of the count."""
    kind = getattr(torch, dtype)

    def random(*shape: int) -> Tensor:
        return torch.randn(*shape, device=device).to(kind)

    with torch.inference_mode():
        weight = torch.ones(sizes.hidden, device=device, dtype=kind)
        norm = _norms(random(rows, sizes.hidden), random(rows, sizes.hidden), weight)
        gate = _gates(random(rows, 2 * sizes.intermediate))
        attention = _attention(rows, context, sizes, random, device)
        parts = [("norm", 2, *norm), ("swiglu", 1, *gate), ("attention", 1, attention, attention)]
        parts += [(name, 1, call, call) for name, call in _products(rows, sizes, random)]
        return [
            {"name": name, "calls": calls} | _timed(rows, separate, fused, device)
            for name, calls, separate, fused in parts
        ]


def _timed(rows: int, separate: Callable[[], object], fused: Callable[[], object], device: str) -> dict:
    separate_us = time_calls([separate], device)
    return {
        "rows": rows,
        "separate_us": separate_us,
        "fused_us": separate_us if fused is separate else time_calls([fused], device),
    }


def _norms(x: Tensor, residual: Tensor, weight: Tensor) -> tuple[Callable[[], object], Callable[[], object]]:
    """The chain and the single pass, over the same operands."""
    out, squares = torch.empty_like(x), torch.empty_like(x)  # not allocated again and again: that would be timed too

    def separate() -> Tensor:
        torch.add(x, residual, out=residual)
        torch.square(residual, out=squares)
        scale = squares.mean(-1, keepdim=True).add_(EPS).rsqrt_()
        torch.mul(residual, scale, out=squares)
        return torch.mul(squares, weight, out=out)

    def blocked() -> Tensor:
        for part, rest, put in _blocks(x, residual, out):
            rest.add_(part)
            scale = rest.square().mean(-1, keepdim=True).add_(EPS).rsqrt_()
            torch.mul(rest, scale, out=put).mul_(weight)
        return out

    return separate, (lambda: add_rmsnorm(x, residual, weight, EPS)) if x.is_cuda else blocked


def _gates(x: Tensor) -> tuple[Callable[[], object], Callable[[], object]]:
    gate, up = (part.contiguous() for part in x.chunk(2, dim=-1))
    out, active = torch.empty_like(gate), torch.empty_like(gate)

    def separate() -> Tensor:
        torch.ops.aten.silu.out(gate, out=active)
        return torch.mul(active, up, out=out)

    def blocked() -> Tensor:
        for left, right, put in _blocks(gate, up, out):
            torch.mul(functional.silu(left), right, out=put)
        return out

    return separate, (lambda: silu_mul(x)) if x.is_cuda else blocked


def _blocks(*tensors: Tensor) -> list[tuple[Tensor, ...]]:
    """The same few rows of each, one group after the other."""
    row = tensors[0].shape[1] * tensors[0].element_size()
    return list(zip(*(tensor.split(max(1, CACHED // row)) for tensor in tensors), strict=True))


def _attention(
    rows: int, context: int, sizes: Sizes, random: Callable[..., Tensor], device: str
) -> Callable[[], object]:
    blocks = -(-context // sizes.block)
    q = random(rows, sizes.query_heads, sizes.head_dim)
    keys, values = (random(rows * blocks + 1, sizes.kv_heads, sizes.block, sizes.head_dim) for _ in range(2))
    tables = torch.arange(1, rows * blocks + 1, dtype=torch.int32, device=device).view(rows, blocks)
    starts = torch.arange(rows + 1, dtype=torch.int32, device=device)
    lengths = torch.full((rows,), context, dtype=torch.int32, device=device)
    scale = sizes.head_dim**-0.5
    return lambda: paged_attention(q, keys, values, tables, starts, lengths, scale, 1)


def _products(rows: int, sizes: Sizes, random: Callable[..., Tensor]) -> list[tuple[str, Callable[[], object]]]:
    heads = sizes.query_heads + 2 * sizes.kv_heads
    shapes = {
        "qkv": (heads * sizes.head_dim, sizes.hidden),
        "o": (sizes.hidden, sizes.query_heads * sizes.head_dim),
        "gate_up": (2 * sizes.intermediate, sizes.hidden),
        "down": (sizes.hidden, sizes.intermediate),
    }
    calls = []
    for name, (outputs, inputs) in shapes.items():
        x, weight = random(rows, inputs), random(outputs, inputs)
        calls.append((name, lambda x=x, weight=weight: functional.linear(x, weight)))
    return calls
