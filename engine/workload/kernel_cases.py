"""What ``bench kernels`` runs: for each fused kernel its shapes, fresh random inputs, the fp32 formula and its peers.

A case holds several sets of inputs, together larger than the L2 cache, so that each call finds its data in memory as a
step of the engine does. ``bytes`` counts what the operation must move, once; ``flops`` is set where products decide.
"""

from collections.abc import Callable, Iterator
from itertools import chain

import torch
from torch import Tensor

from engine.workload import kernel_peers as peers
from engine.workload.kernel_case import EPS, HEAD_DIM, Case, random, sets
from engine.workload.kernel_kv_cases import quantised_decode_cases, quantised_rope_cases
from engine.workload.kernel_quant_cases import quant_cases
from kernels.attention import paged_attention, paged_attention_reference
from kernels.rmsnorm import add_rmsnorm, add_rmsnorm_reference
from kernels.rope_kv import rope_write_kv, rope_write_kv_reference
from kernels.sampling import sample, sample_reference
from kernels.silu_mul import silu_mul, silu_mul_reference
from kernels.skinny import linear, linear_reference


def norm_cases(device: str) -> Iterator[Case]:
    """add+RMSNorm: reads x and residual, writes residual and y."""
    for tokens, hidden in ((1, 1024), (256, 1024), (8192, 4096)) if device == "cuda" else ((8, 256),):
        size = 8 * tokens * hidden
        weight = random(hidden, device=device)
        pairs = [[random(tokens, hidden, device=device) for _ in "xr"] for _ in range(sets(size, device))]
        x, residual = (t.float() for t in pairs[0])
        yield Case(
            "add_rmsnorm",
            f"{tokens} x {hidden}",
            [lambda x=x, r=r, w=weight: add_rmsnorm(x, r, w, EPS) for x, r in pairs],
            lambda x=x, r=residual, w=weight: add_rmsnorm_reference(x, r.clone(), w.float(), EPS),
            size,
            peers=peers.of_norm(pairs, weight, EPS),
        )


def silu_cases(device: str) -> Iterator[Case]:
    """SiLU-mul: reads gate and up, writes one of their size."""
    for tokens, width in ((1, 3072), (256, 3072), (8192, 14336)) if device == "cuda" else ((8, 704),):
        size = 6 * tokens * width
        inputs = [random(tokens, 2 * width, device=device) for _ in range(sets(size, device))]
        calls = [lambda x=x: silu_mul(x) for x in inputs]
        expected = lambda x=inputs[0]: silu_mul_reference(x.float())  # noqa: E731
        yield Case("silu_mul", f"{tokens} x {width}", calls, expected, size, peers=peers.of_silu(inputs))


def rope_cases(device: str) -> Iterator[Case]:
    """q/k norm + RoPE + the write of k and v: reads qkv, writes q, k and v."""
    q_heads, kv_heads = 16, 8
    names = {"num_q_heads": q_heads, "num_kv_heads": kv_heads}
    for tokens in (1, 256, 16384) if device == "cuda" else (8,):
        size = 4 * tokens * (q_heads + 2 * kv_heads) * HEAD_DIM
        inputs = [random(tokens, size // 4 // tokens, device=device) for _ in range(sets(size, device))]
        positions = torch.arange(tokens, device=device, dtype=torch.int32) % 4096
        slots = torch.randperm(tokens, device=device).int() + 16
        cos_sin = random(4096, HEAD_DIM, device=device, dtype=torch.float32)
        norms = [random(HEAD_DIM, device=device) for _ in "qk"]
        caches = list(random(2, tokens // 16 + 2, kv_heads, 16, HEAD_DIM, device=device))
        rest = positions, slots, cos_sin, *caches, *norms, EPS
        wide = positions, slots, cos_sin, *(cache.float() for cache in caches), *(n.float() for n in norms), EPS
        yield Case(
            "rope_write_kv",
            f"{tokens} tokens, {q_heads}/{kv_heads} heads",
            [lambda x=x, rest=rest: rope_write_kv(x, *rest, **names) for x in inputs],
            lambda x=inputs[0], rest=wide: rope_write_kv_reference(x.float(), *rest, **names),
            size,
            peers=peers.of_rope(inputs, rest[:-1], (q_heads, kv_heads), EPS),
        )


def decode_cases(device: str) -> Iterator[Case]:
    """Decode attention over the paged cache: reads k and v of all contexts."""
    shapes = [(64, 16, context) for context in (1024, 2048, 4096, 8192)]
    shapes += [(64, 32, 4096), (256, 16, 1024), (1, 16, 1024), (1, 32, 32768)]
    for rows, q_heads, context in shapes if device == "cuda" else [(4, 4, 64)]:
        yield _attention_case("decode", rows, 1, (q_heads, q_heads // 2 if device == "cpu" else 8), context, device)


def prefill_cases(device: str) -> Iterator[Case]:
    """Causal attention of whole prompts over the paged cache: products decide. A prompt that is admitted to an empty
    pool gets consecutive blocks; the peers read keys and values of one piece."""
    shapes = [(rows, context, (q_heads, 8)) for q_heads in (16, 32) for rows, context in ((8, 2048), (2, 8192))]
    for rows, context, heads in shapes if device == "cuda" else [(2, 64, (4, 2))]:
        for order in (scattered, consecutive):
            yield _attention_case("prefill", rows, context, heads, context, device, order=order)


def scattered(blocks: int) -> Tensor:
    """Ids of that many blocks, anywhere in the pool."""
    return torch.randperm(blocks) + 1


def consecutive(blocks: int) -> Tensor:
    """Ids of that many blocks, one behind the other."""
    return torch.arange(blocks) + 1


def _attention_case(
    kernel: str,
    rows: int,
    queries: int,
    heads: tuple[int, int],
    context: int,
    device: str,
    block_size: int = 16,
    order: Callable[[int], Tensor] = scattered,
) -> Case:
    """Rows of equal context whose blocks lie in the pool as ``order`` says."""
    q_heads, kv_heads = heads
    size = 4 * rows * context * kv_heads * HEAD_DIM
    blocks = rows * context // block_size
    groups = []
    for _ in range(min(8, sets(size, device))):
        table = order(blocks).int().to(device).view(rows, -1)
        cache = random(2, blocks + 1, kv_heads, block_size, HEAD_DIM, device=device)
        groups.append((random(rows * queries, q_heads, HEAD_DIM, device=device), *cache, table))
    starts = torch.arange(rows + 1, device=device, dtype=torch.int32) * queries
    lengths = torch.full((rows,), context, device=device, dtype=torch.int32)
    rest = starts, lengths, HEAD_DIM**-0.5
    pairs = rows * context * (queries + 1) // 2 if queries > 1 else 0
    return Case(
        kernel,
        f"{rows} rows x {context}, {q_heads}/{kv_heads} heads" + ", consecutive blocks" * (order is consecutive),
        [lambda group=group: paged_attention(*group, *rest, queries) for group in groups],
        lambda: _head_by_head(*groups[0], *rest),
        size + 4 * rows * queries * q_heads * HEAD_DIM,
        4 * pairs * q_heads * HEAD_DIM,
        peers.of_attention(groups, lengths, queries, HEAD_DIM**-0.5),
    )


def _head_by_head(q: Tensor, k_cache: Tensor, v_cache: Tensor, *rest: Tensor | float) -> Tensor:
    """The fp32 formula one KV head at a time: the scores of all heads would fill a small GPU's memory."""
    kv_heads = k_cache.shape[1]
    parts = zip(q.chunk(kv_heads, 1), k_cache.split(1, 1), v_cache.split(1, 1))
    return torch.cat([paged_attention_reference(*(t.float() for t in part), *rest) for part in parts], 1)


def linear_cases(device: str) -> Iterator[Case]:
    """The products of a layer with what surrounds them, few tokens: reads the weight."""
    layer = [("qkv", 4096, 1024), ("o", 1024, 2048), ("gate_up", 6144, 1024), ("down", 1024, 3072)]
    large = [("qkv", 6144, 4096), ("o", 4096, 4096), ("gate_up", 28672, 4096), ("down", 4096, 14336)]
    shapes = [("0.6B " + name, rows, *size) for rows in (1, 4, 8, 32, 64) for name, *size in layer]
    shapes += [("8B " + name, rows, *size) for rows in (1, 16) for name, *size in large]
    shapes += [("head", 1, 151936, 1024)]
    for name, rows, outputs, inputs in shapes if device == "cuda" else [("qkv", 1, 64, 96)]:
        gated, added = "gate_up" in name, name.endswith((" o", "down"))
        norm = None if added else random(inputs, device=device)
        x, size = random(rows, inputs, device=device), 2 * outputs * inputs
        weights = [random(outputs, inputs, device=device) / inputs**0.5 for _ in range(sets(size, device))]
        residual = random(rows, outputs, device=device) if added else None
        start = None if residual is None else residual.float()
        around = {"norm": norm, "eps": EPS, "gated": gated, "residual": residual}
        wide = around | {"norm": None if norm is None else norm.float()}
        yield Case(
            f"linear {name}",
            f"M={rows}, {inputs} -> {outputs}",
            [lambda w=w, x=x, a=around: linear(x, w, **a) for w in weights],
            lambda x=x, w=weights[0], a=wide, s=start: linear_reference(
                x.float(), w.float(), **(a | {"residual": None if s is None else s.clone()})
            ),
            size,
            peers={"cublas": [lambda w=w, x=x, a=around: linear_reference(x, w, **a, backend=None) for w in weights]},
        )


def sampling_cases(device: str) -> Iterator[Case]:
    """One draw per row from bf16 logits: reads each once (with filters: the reads of the search are extra)."""
    rows, vocab = (256, 151936) if device == "cuda" else (4, 4096)
    inputs = [random(rows, vocab, device=device) * 3 for _ in range(2)]
    index = torch.arange(rows, device=device, dtype=torch.int32)
    one, seeds = torch.ones(rows, device=device), index.long() * 1234567891011
    for kernel, temperature, top_k, top_p in (
        ("greedy", 0.0, 0, 1.0),
        ("draw", 0.8, 0, 1.0),
        ("top-k, top-p", 0.8, 50, 0.95),
    ):
        rest = temperature * one, (top_k * one).int(), top_p * one, 0 * one, seeds, index, top_p == 1
        yield Case(
            f"sample {kernel}",
            f"{rows} x {vocab}",
            [lambda x=x, rest=rest: sample(x, *rest) for x in inputs],
            lambda rest=rest: sample_reference(inputs[0], *rest),
            2 * rows * vocab,
            peers=peers.of_sampling(inputs, temperature, top_k, top_p),
        )


CASES: dict[str, Callable[[str], Iterator[Case]]] = {
    "add_rmsnorm": norm_cases,
    "silu_mul": silu_cases,
    "rope_write_kv": lambda device: chain(rope_cases(device), quantised_rope_cases(device)),
    "decode": lambda device: chain(decode_cases(device), quantised_decode_cases(device)),
    "prefill": prefill_cases,
    "linear": linear_cases,
    "quant": quant_cases,
    "sample": sampling_cases,
}
