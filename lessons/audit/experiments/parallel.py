"""Several GPUs by formula, and the arithmetic of sharding on one."""

import math

import numpy as np

from lessons.audit.finding import Found, found
from lessons.audit.registry import experiment
from lessons.audit.shapes import LLAMA_70B, NVLINK, PCIE, all_reduce_bytes, split

RANKS = 4
HEADS, HEAD_DIM, HIDDEN, INNER, TOKENS = 8, 16, 64, 128, 12  # of the layer that is cut in four
EXACT = 1e-9  # of fp64


@experiment("2 (n - 1) / n * tokens * hidden * bytes; slopes on log-log")
def allreduce_slope() -> Found:
    """S0-17: doubling the hidden size doubles the bytes."""
    here, there = (all_reduce_bytes(RANKS, 2048, hidden) for hidden in (4096, 8192))
    slope = math.log2(there / here)
    shares = {hidden: _share_of(hidden) for hidden in (4096, 8192, 16_384)}
    return found(
        abs(slope - 2) < 0.1,
        slope=slope,
        share_4096=(shares[4096], "share"),
        share_8192=(shares[8192], "share"),
        share_16384=(shares[16_384], "share"),
    )


def _share_of(hidden: int) -> float:
    """Share by bytes alone at 2,048 tokens, of a layer with the proportions of the 70B shape."""
    grown = split(LLAMA_70B, RANKS, 2048)
    scale = hidden / LLAMA_70B.hidden
    moving = grown.bytes_s * scale
    return moving / (grown.compute_s * scale**2 + moving)


@experiment("(bytes / link + 2 latencies) / (the same + computing), 70B shape, 4 A100, NVLink 300 GB/s, 10 us declared")
def allreduce_share() -> Found:
    """S0-19: the share of a layer at one token and at 2,048."""
    one, many = split(LLAMA_70B, RANKS, 1), split(LLAMA_70B, RANKS, 2048)
    return found(
        0.15 <= many.share(False) <= 0.2,
        one_token_by_bytes=(one.share(False), "share"),
        one_token_with_latency=(one.share(), "share"),
        many_tokens_by_bytes=(many.share(False), "share"),
    )


@experiment("bytes / declared rate of the link: NVLink 300 GB/s, PCIe 4.0 x16 32 GB/s, 70B shape, 2048 tokens")
def link_time() -> Found:
    """S0-18, S0-63, S0-64: both sums of a layer over either link, and the hand-over of a pipeline stage."""
    fast, slow = (split(LLAMA_70B, RANKS, 2048, link) for link in (NVLINK, PCIE))
    stage = 2048 * LLAMA_70B.hidden * 2 / PCIE / (LLAMA_70B.layers / RANKS)
    return found(
        fast.bytes_s < slow.bytes_s,
        nvlink=(fast.bytes_s, "s"),
        pcie=(slow.bytes_s, "s"),
        computing=(fast.compute_s, "s"),
        pipeline_per_layer=(stage, "s"),
    )


def busy(stages: int, micro_batches: int) -> float:
    """Share of the time in which a pipeline computes: m / (m + p - 1)."""
    return micro_batches / (micro_batches + stages - 1)


@experiment("m / (m + p - 1)")
def bubble() -> Found:
    """S0-20, S0-22: four stages with one and with eight micro-batches."""
    one, eight = busy(4, 1), busy(4, 8)
    return found(one == 0.25 and eight > one, one=(one, "share"), eight=(eight, "share"))


@experiment("32 / (32 + 4 - 1)")
def bubble_32() -> Found:
    """S0-23: the ideal of 32 micro-batches."""
    ideal = busy(4, 32)
    return found("partly", ideal=(ideal, "share"), claimed=(0.75, "share"))


@experiment(
    "busy stage-ticks / all, 400 ticks of decoding; a micro-batch that leaves the last stage enters the first",
    simulated=True,
)
def decode_fills_pipe() -> Found:
    """S0-21: how busy four stages are with one and with four micro-batches in flight, and no gradient anywhere."""
    one, four = (_decoding(4, micro_batches) for micro_batches in (1, 4))
    return found("fails" if four > 0.95 else "silent", one=(one, "share"), four=(four, "share"))


def _decoding(stages: int, micro_batches: int, ticks: int = 400) -> float:
    """Share of the stage-ticks in which a stage works; micro-batch i starts at tick i."""
    busy = sum((tick - start) >= 0 for tick in range(ticks) for start in range(micro_batches))
    return min(1.0, busy / (ticks * stages))


@experiment("m * max(weights / bandwidth, flop / m / peak) of a stage: the weights are read once per micro-batch")
def microbatch_cost() -> Found:
    """S0-24: 32 rows of a 70B stage as one batch and as 32 micro-batches."""
    layers = LLAMA_70B.layers // RANKS
    whole = layers * split(LLAMA_70B, 1, 32).compute_s
    cut = 32 * layers * split(LLAMA_70B, 1, 1).compute_s
    return found(cut > whole, whole=(whole, "s"), cut=(cut, "s"), ratio=(cut / whole, "x"))


@experiment("|sum of four shards - unsplit| of attention and MLP in numpy, fp64; KV heads divided by the ranks")
def shard_math() -> Found:
    """S0-15: the layer cut in four by heads, columns and rows, and summed."""
    error = np.abs(_layer(_shards()) - _layer([_whole()])).max()
    return found(error < EXACT, largest_difference=float(error), ranks=RANKS)


@experiment("as above, with the sum before the output product instead of behind it")
def collective_place() -> Found:
    """S0-16: summing the heads of all ranks before the row-split product mixes heads that are not the same."""
    error = np.abs(_summed_too_early() - _attention([_whole()])).max()
    right = np.abs(_attention(_shards()) - _attention([_whole()])).max()
    return found(error < EXACT, where_the_article_sums=float(error), behind_the_output_product=float(right))


def _draw() -> dict[str, np.ndarray]:
    draw = np.random.default_rng(0)
    width = HEADS * HEAD_DIM
    shapes = {"x": (TOKENS, HIDDEN), "q": (HIDDEN, width), "k": (HIDDEN, width), "v": (HIDDEN, width)}
    shapes |= {"o": (width, HIDDEN), "up": (HIDDEN, INNER), "down": (INNER, HIDDEN)}
    return {name: draw.standard_normal(shape) / math.sqrt(shape[0]) for name, shape in shapes.items()}


def _whole() -> dict[str, np.ndarray]:
    return _draw()


def _shards() -> list[dict[str, np.ndarray]]:
    """Columns of q, k, v and up, rows of o and down: a quarter for each rank."""
    parts, cut = _draw(), []
    for rank in range(RANKS):
        columns = {name: np.split(parts[name], RANKS, axis=1)[rank] for name in ("q", "k", "v", "up")}
        rows = {name: np.split(parts[name], RANKS, axis=0)[rank] for name in ("o", "down")}
        cut.append({"x": parts["x"]} | columns | rows)
    return cut


def _heads(part: dict[str, np.ndarray]) -> np.ndarray:
    """(TOKENS, heads of this rank * HEAD_DIM): causal attention of its heads."""
    q, k, v = (np.moveaxis((part["x"] @ part[name]).reshape(TOKENS, -1, HEAD_DIM), 1, 0) for name in ("q", "k", "v"))
    scores = q @ np.swapaxes(k, 1, 2) / math.sqrt(HEAD_DIM)
    scores = np.where(np.tri(TOKENS, dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    mixed = weights / weights.sum(axis=-1, keepdims=True) @ v
    return np.moveaxis(mixed, 0, 1).reshape(TOKENS, -1)


def _attention(parts: list[dict[str, np.ndarray]]) -> np.ndarray:
    return sum(_heads(part) @ part["o"] for part in parts)


def _summed_too_early() -> np.ndarray:
    parts = _shards()
    mixed = sum(_heads(part) for part in parts)
    return sum(mixed @ part["o"] for part in parts)


def _layer(parts: list[dict[str, np.ndarray]]) -> np.ndarray:
    hidden = parts[0]["x"] + _attention(parts)
    return hidden + sum(np.maximum(hidden @ part["up"], 0) @ part["down"] for part in parts)
