"""Paged attention: every query token against the keys of its own row, found through the row's block table.

Row r owns the query tokens ``query_starts[r] .. query_starts[r+1]``, the *last* ones of its ``context_lens[r]`` tokens;
query i of n sees keys 0 .. context - n + i (causal). Prefill, chunks and decode are one formula: a decode row merely
has one query. A row of context 0 is padding; its output, like that of tokens beyond ``query_starts[R]``, is 0.

Reading K and V is the cost: 2 * context * Hkv * D values a row. The score matrix never reaches memory. An 8-bit cache
(``kernels.kv_format``) halves the bytes: the scale of a key goes into its column of the scores, that of a value into
its column of the weights, so that no number of the cache is scaled by itself. The Triton kernels are in
``kernels.decode`` (rows with one query) and ``kernels.prefill`` (rows with more); a mixed step runs both.
"""

import torch
from torch.nn import functional

from kernels.backend import INTERPRET, check_rows, check_same_device, use_triton
from kernels.decode import launch_decode
from kernels.kv_format import LARGEST, check_scales, dequantise_reference
from kernels.prefill import launch_prefill

HEAD_DIMS = (64, 80, 96, 128, 256)  # of the Triton kernels
BLOCK_SIZES = range(8, 257)
MAX_GROUP = 16  # query heads per KV head
LOG2_E = 1.4426950408889634


def paged_attention_reference(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    block_tables: torch.Tensor,
    query_starts: torch.Tensor,
    context_lens: torch.Tensor,
    scale: float,
    k_scale: torch.Tensor | None = None,
    v_scale: torch.Tensor | None = None,
) -> torch.Tensor:
    """What ``paged_attention`` computes, in plain PyTorch: rows with equally many queries form one batch."""
    out = torch.zeros_like(q)
    starts, contexts = query_starts.tolist(), context_lens.tolist()
    groups: dict[int, list[int]] = {}
    for row, context in enumerate(contexts):
        if context and starts[row + 1] > starts[row]:
            groups.setdefault(starts[row + 1] - starts[row], []).append(row)
    for length, rows in groups.items():
        tokens = torch.tensor([list(range(starts[r], starts[r] + length)) for r in rows], device=q.device)
        context = torch.tensor([contexts[r] for r in rows], device=q.device)
        slots = _slots(block_tables[rows], context, max(contexts[r] for r in rows), k_cache)
        k, v = (
            dequantise_reference(c[slots], s if s is None else s[slots])
            for c, s in ((k_cache, k_scale), (v_cache, v_scale))
        )
        out[tokens] = _attend(q[tokens], k, v, context, scale).to(out.dtype)
    return out


def _slots(
    tables: torch.Tensor, context: torch.Tensor, longest: int, cache: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Index of a cache that gives (rows, Hkv, longest, ...); lanes past a row's end repeat its last token."""
    _, num_kv_heads, block_size, _ = cache.shape
    position = torch.minimum(torch.arange(longest, device=tables.device), (context - 1).unsqueeze(1))
    block = tables.long().gather(1, position // block_size).unsqueeze(1)
    head = torch.arange(num_kv_heads, device=tables.device).view(1, -1, 1)
    return block, head, (position % block_size).unsqueeze(1)


def _attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, context: torch.Tensor, scale: float) -> torch.Tensor:
    """Softmax(q k) v for q (rows, n, Hq, D); k, v fp32 (rows, Hkv, longest, D); returns fp32 (rows, n, Hq, D)."""
    rows, length, _, head_dim = q.shape
    num_kv_heads, longest = k.shape[1], k.shape[2]
    grouped = q.float().view(rows, length, num_kv_heads, -1, head_dim).permute(0, 2, 3, 1, 4)  # (rows, Hkv, G, n, D)
    scores = grouped.flatten(2, 3) @ k.transpose(2, 3) * scale  # (rows, Hkv, G n, longest)
    last_seen = context.unsqueeze(1) - length + torch.arange(length, device=q.device)  # (rows, n)
    hidden = torch.arange(longest, device=q.device) > last_seen.unsqueeze(-1)  # (rows, n, longest)
    scores = scores.unflatten(2, (-1, length)).masked_fill_(hidden.view(rows, 1, 1, length, longest), float("-inf"))
    out = functional.softmax(scores, dim=-1).flatten(2, 3) @ v
    return out.view(rows, num_kv_heads, -1, length, head_dim).permute(0, 3, 1, 2, 4).flatten(2, 3)


def check_supported(head_dim: int, num_q_heads: int, num_kv_heads: int, block_size: int) -> None:
    """Refuse shapes without a Triton kernel; a worker calls this when it loads a model.

    Raises:
        ValueError: naming the field and what is supported.
    """
    if head_dim not in HEAD_DIMS:
        raise ValueError(f"head_dim: one of {', '.join(map(str, HEAD_DIMS))}; got {head_dim}")
    if num_q_heads % num_kv_heads or not 1 <= num_q_heads // num_kv_heads <= MAX_GROUP:
        raise ValueError(
            f"query heads per KV head: a whole number of 1 to {MAX_GROUP}; got {num_q_heads}/{num_kv_heads}"
        )
    if block_size not in BLOCK_SIZES:
        raise ValueError(f"block_size: 8 to 256; got {block_size}")


def _check_alike(k_cache: torch.Tensor, v_cache: torch.Tensor) -> None:
    """Refuse caches of two layouts, and 8-bit ones whose scales do not come in pairs within a block."""
    if k_cache.stride() != v_cache.stride():
        raise ValueError(f"v_cache: must have the strides of k_cache, {k_cache.stride()}; got {v_cache.stride()}")
    if k_cache.dtype in LARGEST and k_cache.shape[2] % 2:
        raise ValueError(f"block_size: even beside an 8-bit cache; got {k_cache.shape[2]}")


def paged_attention(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    block_tables: torch.Tensor,
    query_starts: torch.Tensor,
    context_lens: torch.Tensor,
    scale: float,
    max_query_len: int,
    backend: str | None = None,
    splits: int | None = None,
    k_scale: torch.Tensor | None = None,
    v_scale: torch.Tensor | None = None,
) -> torch.Tensor:
    """Causal attention of a step's query tokens over the paged cache.

    Args:
        q: (T, Hq, D), any token and head strides.
        k_cache, v_cache: (blocks, Hkv, block_size, D), any strides but a contiguous last dimension.
        block_tables: (R, max_blocks) integers; entries past a row's context are never read.
        query_starts: (R + 1,) integers, ascending from 0.
        context_lens: (R,) integers, tokens of the row whose KV exists, this step's included; 0: padding row.
        scale: factor of the scores, usually ``D ** -0.5``.
        max_query_len: an upper bound, known on the host, of the queries of a row; at 1 only the decode kernel runs.
        splits: shares of a context in the decode kernel; None: chosen from the shapes.
        k_scale, v_scale: fp16 (blocks, Hkv, block_size), contiguous, where the caches are int8 or fp8; else None.

    Returns:
        (T, Hq, D) of the dtype of ``q``.

    Raises:
        ValueError: for a cache and scales that do not belong together; on the Triton path, for a shape outside
            ``check_supported``, a last dimension not contiguous, caches of two layouts, or an odd block size in 8 bits.
    """
    check_scales(k_cache, v_cache, k_scale, v_scale)
    if not use_triton(backend, q):
        return paged_attention_reference(
            q, k_cache, v_cache, block_tables, query_starts, context_lens, scale, k_scale, v_scale
        )
    check_supported(q.shape[2], q.shape[1], k_cache.shape[1], k_cache.shape[2])
    check_rows(q=q, k_cache=k_cache, v_cache=v_cache, block_tables=block_tables)
    _check_alike(k_cache, v_cache)
    check_same_device(q, k_cache=k_cache, v_cache=v_cache, block_tables=block_tables, context_lens=context_lens)
    out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    if len(q):
        inputs = (q, k_cache, v_cache, block_tables, query_starts, context_lens, scale * LOG2_E, out)
        upcast = INTERPRET and q.dtype == torch.bfloat16  # the interpreter multiplies bf16 as integers
        rows = context_lens.numel()
        scales = {"k_scale": k_scale, "v_scale": v_scale}
        launch_decode(*inputs, splits, rows if max_query_len > 1 else max(rows, len(q)), upcast, **scales)
        if max_query_len > 1:
            launch_prefill(*inputs, upcast, **scales)
    return out
