"""The decoder: embedding, layers, final norm, head. Llama, Qwen2 and Qwen3 are one function with three switches."""

import torch
from torch import Tensor
from torch.nn import functional as F

from engine.worker.kv_cache import KVCache
from engine.worker.layers import Layer
from engine.worker.rope import cos_sin_table
from engine.worker.spec import ModelSpec
from engine.worker.step_batch import StepBatch
from kernels.rmsnorm import add_rmsnorm


class Model:
    """Weights of a decoder and its forward pass over packed tokens (no padding between rows)."""

    def __init__(self, spec: ModelSpec, device: torch.device) -> None:
        self.spec = spec
        self.embedding = torch.empty(spec.vocab_size, spec.hidden_size, dtype=spec.dtype, device=device)
        self.cos_sin = cos_sin_table(spec.rope, spec.head_dim, spec.max_model_len + 1, device)
        self.layers = [Layer.empty(spec, self.cos_sin) for _ in range(spec.num_layers)]
        self.final_norm = torch.empty(spec.hidden_size, dtype=spec.dtype, device=device)
        self.head_weight = self.embedding if spec.tied else torch.empty_like(self.embedding)

    def forward(self, batch: StepBatch, cache: KVCache) -> tuple[Tensor, Tensor]:
        """Run all layers over the step's tokens and write their keys and values.

        Returns:
            ``[T, hidden]`` twice: what the last layer adds, and the sum without it (``head`` takes both).
        """
        x, residual = F.embedding(batch.token_ids, self.embedding), None
        for layer, kv in zip(self.layers, cache.layers):
            x, residual = layer(x, residual, batch, kv)
        return x, residual

    def head(self, x: Tensor, residual: Tensor, backend: str) -> Tensor:
        """Logits ``[S, vocab]`` of the tokens given (both ``[S, hidden]``; ``residual`` is updated in place)."""
        x = add_rmsnorm(x, residual, self.final_norm, self.spec.rms_eps, backend=backend)
        return F.linear(x, self.head_weight)

    def tensors(self) -> dict[str, Tensor]:
        """Checkpoint name -> where it goes. Parts of a stacked weight are views of their rows."""
        found = {"model.embed_tokens.weight": self.embedding, "model.norm.weight": self.final_norm}
        if not self.spec.tied:
            found["lm_head.weight"] = self.head_weight
        for index, layer in enumerate(self.layers):
            found |= {f"model.layers.{index}.{name}": tensor for name, tensor in self._layer_tensors(layer).items()}
        return found

    def _layer_tensors(self, layer: Layer) -> dict[str, Tensor]:
        found = {f"{part}.weight": getattr(layer, name) for name, (part, _) in self.spec.norms.items()}
        for linear in (layer.qkv, layer.o, layer.gate_up, layer.down):
            sizes = [rows for _, rows in linear.spec.parts]
            for kind, whole in (("weight", linear.weight), ("bias", linear.bias)):
                views = whole.split(sizes) if whole is not None else ()
                found |= {f"{part}.{kind}": view for (part, _), view in zip(linear.spec.parts, views)}
        return found
