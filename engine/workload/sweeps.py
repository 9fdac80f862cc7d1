"""Small sweeps that show what binds: one product against its rows, six operations, a decode step against its rows.

Each figure comes with the operations and the bytes that it stands for, so that floors are a division away.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from engine.config import EngineConfig, SchedulingConfig, WorkerConfig
from engine.loading import LoadedModel, load_model
from engine.provenance import device_name
from engine.worker.checkpoint import KV_DTYPES
from engine.workload.calibrate import calibrate
from engine.workload.drive import Progress, silent
from engine.workload.kernel_bench import time_calls
from engine.workload.latency import latency
from engine.workload.limits import decode_floor, shape_of

COLD_BYTES = 96 << 20  # operands in turn: more than a last-level cache holds
ANSWER = 24  # tokens of each answer of a decode sweep


def product_sweep(
    device: str, dtype: str, inputs: int, outputs: int, rows: Sequence[int], progress: Progress = silent
) -> list[dict]:
    """Microseconds of one linear layer ``[rows, inputs] x [inputs, outputs]`` for each number of rows.

    Weights are read from memory: several take turns. On CUDA the calls stand in a graph.
    """
    kind = getattr(torch, dtype)
    size = inputs * outputs * kind.itemsize
    weights = [_random((outputs, inputs), device, kind) for _ in range(max(2, -(-COLD_BYTES // size)))]
    entries = []
    with torch.inference_mode():
        for place, count in enumerate(rows):
            progress(f"{count} rows", place / len(rows))
            x = _random((count, inputs), device, kind)
            calls = [lambda weight=weight, x=x: torch.nn.functional.linear(x, weight) for weight in weights]
            moved = size + count * (inputs + outputs) * kind.itemsize
            flops = 2 * count * inputs * outputs
            entries.append({"rows": count, "us": time_calls(calls, device), "flops": flops, "bytes": moved})
    return entries


def six_operations(device: str, dtype: str, progress: Progress = silent) -> list[dict]:
    """Six operations of a decoder, each with its microseconds, operations and bytes: ``add_one`` touches one number,
    ``norm`` one row, ``copy`` a large tensor; ``product_1`` and ``product_many`` are one linear layer for a single row
    and for many; ``scores`` are those of a long prompt against itself."""
    kind = getattr(torch, dtype)
    entries = []
    with torch.inference_mode():
        for place, (name, calls, flops, moved) in enumerate(_operations(device, kind)):
            progress(name, place / 6)
            us = time_calls(calls, device)
            entries.append({"name": name, "us": us, "flops": flops, "bytes": moved * kind.itemsize})
    return entries


def _operations(device: str, kind: torch.dtype) -> Sequence[tuple[str, list[Callable[[], Tensor]], int, int]]:
    """Name, calls, operations, and numbers that must move."""
    side, many, tokens, dim = 4096, 512, 1024, 128
    one, row = (_random((1, width), device, kind) for width in (1, side))
    weights = [_random((side, side), device, kind) for _ in range(max(2, COLD_BYTES // (side * side * kind.itemsize)))]
    block, heads = _random((many, side), device, kind), _random((16, tokens, dim), device, kind)
    other = torch.empty_like(weights[0])
    linear, norm = torch.nn.functional.linear, torch.nn.functional.rms_norm
    return (
        ("add_one", [lambda: one + 1], 1, 2),
        ("norm", [lambda: norm(row, (side,))], 3 * side, 2 * side),
        ("copy", [lambda weight=weight: other.copy_(weight) for weight in weights], 1, 2 * side * side),
        ("product_1", [lambda w=w: linear(row, w) for w in weights], 2 * side * side, side * side + 2 * side),
        (
            "product_many",
            [lambda w=w: linear(block, w) for w in weights],
            2 * many * side * side,
            side * side + 2 * many * side,
        ),
        (
            "scores",
            [lambda: heads @ heads.transpose(1, 2)],
            2 * 16 * tokens * tokens * dim,
            2 * 16 * tokens * dim + 16 * tokens * tokens,
        ),
    )


def decode_sweep(
    random_weights: str | None,
    rows: Sequence[int],
    contexts: Sequence[int],
    progress: Progress = silent,
    kv_dtype: str = "auto",
    eager: bool = True,
) -> dict:
    """A decode step of the engine over ``rows`` x ``contexts``, in CUDA graphs and without, beside its floor.

    A model of its own is loaded in this process, and leaves again.

    Args:
        random_weights: shape of a model without a checkpoint; None: the bundled model.
        kv_dtype: of the pool.
        eager: also time each step without graphs.

    Returns:
        ``device``, ``backend``, ``model`` (``weight_bytes``, ``kv_bytes`` of a token, ``layers``, ``kv_dtype``),
        ``machine`` (``bandwidth``, ``flops``, ``launch_s``, that in a graph where there are graphs) and ``entries``:
        those of ``latency``, and ``weights_ms`` and ``kv_ms``, the floors of reading the weights and the KV cache.
    """
    config = sweep_config(random_weights, max(rows), max(contexts) + ANSWER, kv_dtype)
    model = load_model(config, (), lambda what, done: progress(what, 0.2 * done))
    try:
        return _swept(model, rows, contexts, progress, eager)
    finally:
        model.close()


def sweep_config(random_weights: str | None, rows: int, longest: int, kv_dtype: str = "auto") -> EngineConfig:
    """An engine whose pool holds ``rows`` requests of ``longest`` tokens, all at once."""
    blocks = rows * -(-longest // 16) + 1
    scheduling = SchedulingConfig(
        max_num_seqs=rows, token_budget=max(2048, rows), max_model_len=longest, prefix_cache=False
    )
    worker = WorkerConfig(random_weights=random_weights, kv_dtype=kv_dtype)
    return EngineConfig(scheduling, worker, pool_blocks=blocks)


def _swept(model: LoadedModel, rows: Sequence[int], contexts: Sequence[int], progress: Progress, eager: bool) -> dict:
    worker = model.worker
    ceilings, shape = (
        calibrate(str(worker.device), str(worker.spec.dtype).removeprefix("torch.")),
        shape_of(worker.spec),
    )
    machine, eagerly = ceilings.machine, worker.eagerly if eager and worker.graphs else None
    entries: list[dict] = []
    for place, context in enumerate(contexts):

        def share(what: str, done: float, place: int = place) -> None:
            progress(what, 0.3 + 0.7 * (place + done) / len(contexts))

        lengths = max(1, context - ANSWER // 2), ANSWER
        for entry in latency(model.new_engine, shape, machine, rows, lengths, eagerly, share):
            floor = decode_floor(shape, entry["rows"], entry["context"], machine)
            entries.append(entry | {"weights_ms": floor.products * 1e3, "kv_ms": floor.attention * 1e3})
    launch = ceilings.launch_graph_s or ceilings.launch_eager_s
    return {
        "device": device_name(worker.device),
        "backend": worker.backend,
        "model": {
            "weight_bytes": shape.streamed_bytes,
            "kv_bytes": shape.kv_bytes,
            "layers": shape.layers,
            "kv_dtype": kv_name(worker.spec.kv_dtype),
        },
        "machine": {"bandwidth": machine.bandwidth, "flops": machine.flops, "launch_s": launch},
        "entries": entries,
    }


def kv_name(dtype: torch.dtype) -> str:
    """A KV dtype as the command line calls it."""
    return next(name for name, known in KV_DTYPES.items() if known == dtype)


def _random(sizes: tuple[int, ...], device: str, kind: torch.dtype) -> Tensor:
    return torch.randn(sizes, device=device).to(kind)
