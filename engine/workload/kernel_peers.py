"""The same operations by other hands: PyTorch eager and compiled, its attention, Liger and FlashInfer where installed.

Each function returns ``{peer: one call per set of inputs}``. A peer gets the layout that suits it best (dense K and V
for PyTorch's attention), so a ratio errs to our disadvantage.
"""

import importlib
from collections.abc import Callable, Sequence
from types import ModuleType

import torch
from torch import Tensor
from torch.nn import functional

import engine.worker  # noqa: F401  # its shield: a peer may import transformers, which would take kernels for its own

Calls = dict[str, list[Callable[[], Tensor]]]


def installed(name: str) -> ModuleType | None:
    """The module, or None where it is missing or broken (a package built for another CUDA raises many things)."""
    try:
        return importlib.import_module(name)
    except Exception:
        return None


def of_norm(pairs: Sequence[Sequence[Tensor]], weight: Tensor, eps: float) -> Calls:
    """add + RMSNorm."""

    def eager(x: Tensor, residual: Tensor) -> Tensor:
        return functional.rms_norm(residual.add_(x), weight.shape, weight, eps)

    found = _eager_and_compiled(eager, pairs)
    if pairs[0][0].is_cuda and (liger := installed("liger_kernel.transformers.functional")):
        norm = liger.liger_rms_norm
        found["liger"] = [lambda x=x, r=r: norm(r.add_(x), weight, eps) for x, r in pairs]
    if pairs[0][0].is_cuda and (flashinfer := installed("flashinfer")):
        fused = flashinfer.norm.fused_add_rmsnorm
        found["flashinfer"] = [lambda x=x, r=r: fused(x, r, weight, eps) for x, r in pairs]
    return found


def of_silu(inputs: Sequence[Tensor]) -> Calls:
    """SiLU-mul."""

    def eager(x: Tensor) -> Tensor:
        gate, up = x.chunk(2, dim=-1)
        return functional.silu(gate) * up

    found = _eager_and_compiled(eager, [(x,) for x in inputs])
    if inputs[0].is_cuda and (liger := installed("liger_kernel.transformers.functional")):
        found["liger"] = [lambda x=x: liger.liger_swiglu(*x.chunk(2, dim=-1)) for x in inputs]
    if inputs[0].is_cuda and (flashinfer := installed("flashinfer")):
        found["flashinfer"] = [lambda x=x: flashinfer.activation.silu_and_mul(x) for x in inputs]
    return found


def of_rope(inputs: Sequence[Tensor], rest: Sequence[Tensor], heads: tuple[int, int], eps: float) -> Calls:
    """q/k norm, RoPE and the write of k and v, each by PyTorch's own operations. ``rest``: as ``rope_write_kv``."""
    q_heads, kv_heads = heads

    def eager(qkv: Tensor, positions: Tensor, slots: Tensor, cos_sin: Tensor, *others: Tensor) -> Tensor:
        k_cache, v_cache, q_norm, k_norm = others
        q, k, v = qkv.unflatten(-1, (q_heads + 2 * kv_heads, -1)).split((q_heads, kv_heads, kv_heads), dim=1)
        halves = cos_sin[positions].to(qkv.dtype).unsqueeze(1).chunk(2, dim=-1)
        cos, sin = (half.repeat(1, 1, 2) for half in halves)
        q, k = functional.rms_norm(q, q_norm.shape, q_norm, eps), functional.rms_norm(k, k_norm.shape, k_norm, eps)
        q, k = (x * cos + torch.cat((-x.chunk(2, -1)[1], x.chunk(2, -1)[0]), -1) * sin for x in (q, k))
        block, offset = slots // k_cache.shape[2], slots % k_cache.shape[2]
        k_cache[block, :, offset], v_cache[block, :, offset] = k, v
        return q

    return _eager_and_compiled(eager, [(x, *rest) for x in inputs])


def of_attention(groups: Sequence[tuple[Tensor, ...]], lengths: Tensor, queries: int, scale: float) -> Calls:
    """Attention: PyTorch's over dense copies, FlashInfer's over the pages for decode."""
    dense = [_dense(*group, queries) for group in groups]

    def eager(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return functional.scaled_dot_product_attention(q, k, v, is_causal=queries > 1, scale=scale, enable_gqa=True)

    found: Calls = {"sdpa": [lambda t=t: eager(*t) for t in dense]}
    if queries == 1 and lengths.is_cuda and (flashinfer := installed("flashinfer")):
        found["flashinfer"] = [_flashinfer_decode(flashinfer, *group, lengths) for group in groups]
    return found


def of_sampling(inputs: Sequence[Tensor], temperature: float, top_k: int, top_p: float) -> Calls:
    """Sampling: argmax, softmax and multinomial, or FlashInfer's filtered draw."""
    if temperature == 0:
        return {"eager": [lambda x=x: x.argmax(dim=-1) for x in inputs]}
    if top_p == 1:
        return {"eager": [lambda x=x: (x.float() / temperature).softmax(-1).multinomial(1) for x in inputs]}

    def eager(x: Tensor) -> Tensor:
        best, ids = x.float().topk(top_k or x.shape[1], dim=-1)
        mass = (best / temperature).softmax(-1)
        mass = mass.masked_fill(mass.cumsum(-1) - mass > top_p, 0.0)
        return ids.gather(1, mass.multinomial(1))

    found: Calls = {"eager": [lambda x=x: eager(x) for x in inputs]}
    if inputs[0].is_cuda and (flashinfer := installed("flashinfer")):
        draw = flashinfer.sampling.top_k_top_p_sampling_from_logits
        found["flashinfer"] = [lambda x=x: draw(x.float() / temperature, top_k or x.shape[1], top_p) for x in inputs]
    return found


def _eager_and_compiled(function: Callable[..., Tensor], arguments: Sequence[Sequence[Tensor]]) -> Calls:
    """``function`` as it is and, on a GPU, through ``torch.compile``."""
    found: Calls = {"eager": [lambda a=a: function(*a) for a in arguments]}
    if arguments[0][0].is_cuda:
        compiled = torch.compile(function, dynamic=False)
        found["compile"] = [lambda a=a: compiled(*a) for a in arguments]
    return found


def _dense(q: Tensor, k_cache: Tensor, v_cache: Tensor, table: Tensor, queries: int) -> tuple[Tensor, ...]:
    """q, k and v as (rows, heads, tokens, D)."""
    rows = table.shape[0]
    k, v = (cache[table.long()].transpose(1, 2).flatten(2, 3).contiguous() for cache in (k_cache, v_cache))
    return q.view(rows, queries, *q.shape[1:]).transpose(1, 2), k, v


def _flashinfer_decode(
    flashinfer: ModuleType, q: Tensor, k_cache: Tensor, v_cache: Tensor, table: Tensor, lengths: Tensor
) -> Callable[[], Tensor]:
    """FlashInfer's paged decode, planned beforehand: its plan runs on the host once per step and is not counted."""
    rows, blocks = table.shape
    kv_heads, block_size, head_dim = k_cache.shape[1:]
    workspace = torch.empty(128 << 20, dtype=torch.uint8, device=q.device)
    wrapper = flashinfer.BatchDecodeWithPagedKVCacheWrapper(workspace, "HND", use_tensor_cores=True)
    starts = torch.arange(rows + 1, dtype=torch.int32, device=q.device) * blocks
    last = (lengths - 1) % block_size + 1
    sizes = q.shape[1], kv_heads, head_dim, block_size
    wrapper.plan(starts, table.flatten(), last, *sizes, q_data_type=q.dtype, kv_data_type=k_cache.dtype)
    return lambda: wrapper.run(q, (k_cache, v_cache))
