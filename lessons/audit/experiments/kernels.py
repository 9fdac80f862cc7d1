"""Kernels: what a run of ``bench kernels`` says, and what bytes and operations alone say. The kernels are checked
against their references in the run before they are timed."""

import math
from collections.abc import Mapping

import numpy as np

from engine.workload import online_softmax as tiles
from engine.workload.fusion import ROWS, SHARED, fusions, layer_us, measured, share, total
from engine.workload.kernel_ledger import ceilings, dots, naive_bytes, of_references, score_bytes, tiled_bytes
from engine.workload.limits import decode_floor, prefill_flop
from lessons.audit.estimators import amdahl
from lessons.audit.finding import Found, Number, found
from lessons.audit.registry import experiment
from lessons.audit.shapes import LLAMA_8B

PEER_RATIO = "peer us / fused us of the run; bytes of the separate kernels / bytes of the fused one"
TILE = 128  # columns of a tile of a product
SAME = 1e-4  # two orders of sums in fp32
WELL = 0.7  # of its limit
SPLIT, MERGED = 5, 2  # products: q, k, v, gate, up; and qkv, gate_up


@experiment("bytes with the score matrix / bytes in tiles of 128 queries, prompt of 8,192, one head of 128, 16 bit")
def tile_bytes() -> Found:
    """S0-44."""
    naive, tiled, matrix = naive_bytes(8192), tiled_bytes(8192), score_bytes(8192)
    return found(tiled < naive, naive=(naive, "B"), tiled=(tiled, "B"), matrix=(matrix, "B"))


@experiment("log2 of the growth from 8,192 to 16,384 tokens")
def attention_slopes() -> Found:
    """S2-22: operations, memory and traffic against the length of the prompt."""
    short, long = 8192, 16_384
    flop = [n * (n + 1) / 2 for n in (short, long)]
    traffic = math.log2(tiled_bytes(long) / tiled_bytes(short))
    return found(
        traffic < 1.2,
        operations=math.log2(flop[1] / flop[0]),
        extra_memory_naive=math.log2(score_bytes(long) / score_bytes(short)),
        extra_memory_tiled=(0, "B"),
        traffic_tiled=traffic,
        traffic_saved=(naive_bytes(long) / tiled_bytes(long), "x"),
    )


@experiment("2 * tokens^2 bytes of one head; in tiles nothing is stored")
def score_matrix() -> Found:
    """S4-11: what attention without tiles would have to store."""
    short, long = score_bytes(4096), score_bytes(131_072)
    return found(long > 8 * 2**30, short=(short, "B"), long=(long, "B"))


@experiment("largest distance from softmax over all keys in fp64; 50 random problems, tiles of 2, 4 and 8 keys")
def online_softmax() -> Found:
    """S0-46."""
    problems = [tiles.problem(seed) for seed in range(50)]
    off = max(tiles.deviation(tiles.answer(tiles.tiles(p, n)), p) for p in problems for n in tiles.TILES)
    rescaled = np.mean([tile.rescaled.mean() for p in problems for tile in tiles.tiles(p, 4)[1:]])
    return found(off < SAME, largest_difference=off, rescaled=(float(rescaled), "share"))


@experiment("|the listing's sum - attention| / |attention|: one product per block, no softmax, no scale, no mask")
def kernel_listing() -> Found:
    """S0-52: what the published listing would answer on the stepper's problem."""
    given = tiles.problem(1)
    blocks = [slice(begin, begin + 4) for begin in range(0, tiles.KEYS, 4)]
    listed = sum((given.q @ given.k[block][0])[:, None] * given.v[block][0] for block in blocks)
    off = np.linalg.norm(listed - given.expected) / np.linalg.norm(given.expected)
    return found(off < 0.01, relative_error=(float(off), "share"))


@experiment("columns of a tile / hidden size; tiles that must meet before one row is normalised")
def ln_tile() -> Found:
    """S1-07, S1-11."""
    return found("partly", tile=(TILE / LLAMA_8B.hidden, "share"), tiles_of_a_row=LLAMA_8B.hidden / TILE)


@experiment("bytes read and written per number, separate / fused: kernels.rmsnorm, silu_mul, rope_kv")
def fusion_bytes() -> Found:
    """S1-06."""
    ratios = {each.kernel: (each.predicted, "x") for each in fusions()}
    saved = total(fusions()[0].separate) - total(fusions()[0].fused)
    return found(saved > 0, passes_saved_by_the_norm=saved, **ratios)


@experiment("kernels of a layer before and after fusing; calls per layer from the ledger")
def launch_count() -> Found:
    """S1-12, S1-24, S2-12, S4-06: launches of the parts of a layer that are fused."""
    separate = sum(_launches(each.separate) * SHARED[each.kernel][1] for each in fusions())
    fused = sum(_launches(each.fused) * SHARED[each.kernel][1] for each in fusions())
    return found(fused < separate, patterns=len(fusions()) + 2, separate=separate + SPLIT, fused=fused + MERGED)


def _launches(moves: tuple) -> int:
    return len({move.kernel for move in moves})


@experiment("FLOP / bytes of a step; ridge: matmul peak / bandwidth of the run", "kernels")
def decode_intensity(run: Mapping) -> Found:
    """S1-03: one decode row and a prompt of 2,048 of the 8B shape beside the ridge of the machine."""
    roof = ceilings(run)
    decode = 2 * (LLAMA_8B.layer_weights + LLAMA_8B.head_weights) / LLAMA_8B.streamed_bytes
    prefill = prefill_flop(LLAMA_8B, 2048) / LLAMA_8B.streamed_bytes
    ridge = roof.flops / roof.bandwidth
    holds = "partly" if decode < ridge < prefill else "silent"
    return found(holds, decode=(decode, "FLOP/B"), prefill=(prefill, "FLOP/B"), ridge=(ridge, "FLOP/B"))


@experiment("rows * FLOP / bytes of a square product of 4,096; ridge of the run", "kernels")
def product_bound(run: Mapping) -> Found:
    """S1-09."""
    roof, side = ceilings(run), 4096
    one, many = (2 * m * side**2 / (2 * (side**2 + 2 * m * side)) for m in (1, side))
    ridge = roof.flops / roof.bandwidth
    return found(one < ridge < many, one_row=(one, "FLOP/B"), many_rows=(many, "FLOP/B"), ridge=(ridge, "FLOP/B"))


@experiment(PEER_RATIO, "kernels")
def norm_ratio(run: Mapping) -> Found:
    """S1-08, S0-47: predicted and measured ratio of each fusion at its largest shape."""
    if of_references(run):
        return found("silent", "references")
    numbers: dict[str, Number] = {}
    for each in fusions():
        ratios = measured(run, each.kernel)
        if ratios:
            numbers[f"{each.kernel}_by_bytes"] = each.predicted, "x"
            numbers[f"{each.kernel}_by_clock"] = list(ratios.values())[-1], "x"
    clocks = [value for name, (value, _) in numbers.items() if name.endswith("clock")]
    return found(all(clock > 1.1 for clock in clocks) if clocks else "silent", **numbers)


@experiment(PEER_RATIO, "kernels")
def residual_fusion(run: Mapping) -> Found:
    """S1-10: residual add and norm in one kernel with two outputs."""
    ratios = {} if of_references(run) else measured(run, "add_rmsnorm")
    if not ratios:
        return found("silent", "references")
    first, *_, last = ratios.values()
    outputs = sum(move.written for move in fusions()[0].fused)
    return found("fails" if last > 1 else "silent", outputs=outputs, small=(first, "x"), large=(last, "x"))


@experiment("share of a layer's time at 256 rows; Amdahl by time over all three fusions", "kernels")
def fusion_share(run: Mapping) -> Found:
    """S1-18."""
    shares, parts = {kernel: share(run, kernel) for kernel in SHARED if kernel != "decode"}, layer_us(run)
    if parts is None or None in shares.values():
        return found("silent", "references")
    ratios = {kernel: measured(run, kernel)[SHARED[kernel][0]] for kernel in shares}
    numbers = {kernel: (known.of_layer, "share") for kernel, known in shares.items()}
    apart = sum(parts[kernel] * ratio for kernel, ratio in ratios.items())
    before = apart / (sum(parts.values()) - sum(parts[kernel] for kernel in ratios) + apart)
    speed_up = amdahl(parts, ratios)
    return found(speed_up > 1.02, rows=ROWS, all_fused=(speed_up, "x"), unfused=(before, "share"), **numbers)


@experiment("as the gain by time; a prompt of 2,048: FLOP / bytes over the ridge is bound by its products", "kernels")
def fusion_by_phase(run: Mapping) -> Found:
    """S1-17: what fusing gives a decode step, and what binds a prefill."""
    known, roof = fusion_share(run), ceilings(run)
    if "all_fused" not in known.numbers:
        return found("silent", "references")
    over = prefill_flop(LLAMA_8B, 2048) / LLAMA_8B.streamed_bytes / (roof.flops / roof.bandwidth)
    return found("partly", decode=known.numbers["all_fused"], prefill_over_ridge=(over, "x"))


@experiment(
    "us of the run beside PyTorch's attention on contiguous keys and values; of_limit: largest floor / us", "kernels"
)
def attention_table(run: Mapping) -> Found:
    """S0-48, S0-49, S2-20: paged attention beside contiguous attention."""
    known = {(dot.kernel, dot.shape): dot for dot in dots(run)}
    numbers: dict[str, Number] = {}
    for name, key in _ATTENTION.items():
        if (dot := known.get(key)) and "sdpa" in dot.peers:
            numbers |= {f"{name}_us": (dot.us * 1e-6, "s"), f"{name}_contiguous": (dot.peers["sdpa"] * 1e-6, "s")}
            numbers[f"{name}_of_limit"] = dot.of_limit, "share"
    if "decode_us" not in numbers:
        return found("silent", "references")
    slower = numbers["decode_us"][0] / numbers["decode_contiguous"][0]
    return found(slower < 1.15, slower=(slower, "x"), **numbers)


_ATTENTION = {
    "decode": ("decode", "64 rows x 4096, 32/8 heads"),
    "prefill": ("prefill", "1 rows x 8192, 16/8 heads"),
}


@experiment("heads of the request; of_limit: largest floor / us", "kernels")
def split_kv(run: Mapping) -> Found:
    """S0-51: one request over 32,768 tokens beside 64 requests over 4,096."""
    known = {dot.shape: dot for dot in dots(run) if dot.kernel == "decode"}
    one, many = (known.get(shape) for shape in ("1 rows x 32768, 32/8 heads", "64 rows x 4096, 32/8 heads"))
    if one is None or many is None:
        return found("silent", "references")
    judged = "partly" if one.of_limit > WELL * many.of_limit else "silent"
    return found(judged, heads=32, one_request=(one.of_limit, "share"), many_requests=(many.of_limit, "share"))


@experiment("cuBLAS us / this engine's us of the run, products of one to four rows", "kernels")
def gemm_vendor(run: Mapping) -> Found:
    """S2-17: where another kernel than the vendor's pays."""
    ratios = [dot.peers["cublas"] / dot.us for dot in dots(run) if "cublas" in dot.peers]
    if not ratios:
        return found("silent", "references")
    return found("partly", shapes=len(ratios), least=(min(ratios), "x"), most=(max(ratios), "x"))


@experiment("decode floor of the 8B shape at the bandwidth and peak of the run: rows / floor", "kernels")
def floor_table(run: Mapping) -> Found:
    """S0-66, S0-67: what no engine can beat on the machine of the run."""
    roof = ceilings(run)
    one, many = (decode_floor(LLAMA_8B, rows, 1024, roof).total for rows in (1, 64))
    return found(
        "partly",
        bandwidth=(roof.bandwidth, "B/s"),
        ridge=(roof.flops / roof.bandwidth, "FLOP/B"),
        floor_of_one_row=(one, "s"),
        limit_of_one_row=(1 / one, "tok/s"),
        limit_of_64_rows=(64 / many, "tok/s"),
    )
