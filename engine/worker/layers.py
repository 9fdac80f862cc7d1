"""One decoder layer: its weights, and the operations that a token passes through."""

from dataclasses import dataclass

import torch
from torch import Tensor

from engine.worker.kv_cache import LayerKV
from engine.worker.spec import LinearSpec, ModelSpec
from engine.worker.step_batch import StepBatch
from kernels import quant_linear
from kernels.attention import paged_attention
from kernels.quantise import QuantWeight
from kernels.rope_kv import rope_write_kv
from kernels.skinny import linear


@dataclass(slots=True)
class Linear:
    """A product and its weight ``[outputs, inputs]``, stacked from the parts of its spec."""

    spec: LinearSpec
    weight: Tensor | QuantWeight
    bias: Tensor | None

    @classmethod
    def empty(cls, spec: LinearSpec, dtype: torch.dtype, device: torch.device) -> "Linear":
        """A product whose weight is still to be filled."""
        if spec.format == "dense":
            weight = torch.empty(spec.outputs, spec.inputs, dtype=dtype, device=device)
        else:
            weight = QuantWeight.empty(spec.format, spec.outputs, spec.inputs, device)
        bias = torch.empty(spec.outputs, dtype=dtype, device=device) if spec.bias else None
        return cls(spec, weight, bias)

    def __call__(self, x: Tensor, backend: str, **around: object) -> Tensor:
        """``[T, inputs]`` -> ``[T, outputs]``, fused with what surrounds it (``around``: see ``kernels.skinny``)."""
        product = linear if self.spec.format == "dense" else quant_linear.linear
        return product(x, self.weight, self.bias, backend=backend, **around)


@dataclass(slots=True)
class Layer:
    """Weights of one decoder layer. ``q_norm`` and ``k_norm`` are None where the family has none."""

    spec: ModelSpec
    cos_sin: Tensor  # shared by all layers
    qkv: Linear
    o: Linear
    gate_up: Linear
    down: Linear
    input_norm: Tensor
    post_norm: Tensor
    q_norm: Tensor | None = None
    k_norm: Tensor | None = None

    @classmethod
    def empty(cls, spec: ModelSpec, cos_sin: Tensor) -> "Layer":
        """A layer whose weights are still to be filled."""
        device = cos_sin.device
        linears = {linear.name: Linear.empty(linear, spec.dtype, device) for linear in spec.linears}
        norms = {name: torch.empty(n, dtype=spec.dtype, device=device) for name, (_, n) in spec.norms.items()}
        return cls(spec, cos_sin, **linears, **norms)

    def __call__(self, h: Tensor, batch: StepBatch, kv: LayerKV) -> None:
        """Run the layer over packed tokens.

        Args:
            h: ``[T, hidden]``, the residual stream; what the layer computes is added to it in place.
            kv: keys and values of this layer in the pool; this step's tokens are written to them.
        """
        eps, backend = self.spec.rms_eps, batch.backend
        attended = self._attend(self.qkv(h, backend, norm=self.input_norm, eps=eps), batch, kv)
        self.o(attended, backend, residual=h)
        gated = self.gate_up(h, backend, norm=self.post_norm, eps=eps, gated=True)
        self.down(gated, backend, residual=h)

    def _attend(self, qkv: Tensor, batch: StepBatch, kv: LayerKV) -> Tensor:
        """``[T, (Hq + 2 Hkv) D]`` -> ``[T, Hq D]``: rotate, write keys and values, attend over each row's blocks."""
        spec, backend = self.spec, batch.backend
        scales = {"k_scale": kv.k_scale, "v_scale": kv.v_scale}
        q = rope_write_kv(
            qkv,
            batch.positions,
            batch.slots,
            self.cos_sin,
            kv.k,
            kv.v,
            q_norm=self.q_norm,
            k_norm=self.k_norm,
            eps=spec.rms_eps,
            num_q_heads=spec.num_q_heads,
            num_kv_heads=spec.num_kv_heads,
            backend=backend,
            **scales,
        )
        rows = batch.block_tables, batch.query_starts, batch.context_lens
        scale, longest = spec.head_dim**-0.5, batch.max_query_len
        out = paged_attention(q, kv.k, kv.v, *rows, scale, longest, backend=backend, **scales)
        return out.view(qkv.shape[0], -1)
