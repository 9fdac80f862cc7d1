"""The decoder: embedding, layers, final norm, head. Llama, Qwen2 and Qwen3 are one function with three switches."""

import torch
from torch import Tensor
from torch.nn import functional as F

from engine.worker.kv_cache import KVCache
from engine.worker.layers import Layer
from engine.worker.rope import cos_sin_table
from engine.worker.spec import ModelSpec
from engine.worker.step_batch import StepBatch
from kernels.quantise import QuantRows
from kernels.rmsnorm import rmsnorm
from kernels.skinny import MAX_ROWS, linear


class Model:
    """Weights of a decoder and its forward pass over packed tokens (no padding between rows)."""

    def __init__(self, spec: ModelSpec, device: torch.device) -> None:
        self.spec = spec
        self.embedding = torch.empty(spec.vocab_size, spec.hidden_size, dtype=spec.dtype, device=device)
        self.cos_sin = cos_sin_table(spec.rope, spec.head_dim, spec.max_model_len + 1, device)
        self.layers = [Layer.empty(spec, self.cos_sin) for _ in range(spec.num_layers)]
        self.final_norm = torch.empty(spec.hidden_size, dtype=spec.dtype, device=device)
        self.head_weight = self.embedding if spec.tied else torch.empty_like(self.embedding)
        self.quant_errors: dict[str, float] = {}  # of each quantised weight: ||stored - given|| / ||given||

    def forward(self, batch: StepBatch, cache: KVCache) -> Tensor:
        """Run all layers over the step's tokens and write their keys and values.

        Returns:
            ``[T, hidden]``, the residual stream behind the last layer (``head`` takes it).
        """
        h = F.embedding(batch.token_ids, self.embedding)
        for layer, kv in zip(self.layers, cache.layers):
            layer(h, batch, kv)
        return h

    def head(self, h: Tensor, backend: str, out: Tensor | None = None) -> Tensor:
        """Logits ``[S, vocab]`` of the tokens given (``h``: ``[S, hidden]``), in the model's dtype.

        ``out``: where they go; None: a new tensor.
        """
        norm, eps = self.final_norm, self.spec.rms_eps
        if out is not None and len(h) > MAX_ROWS:  # too large to be copied
            return torch.mm(rmsnorm(h, norm, eps, backend=backend), self.head_weight.T, out=out)
        logits = linear(h, self.head_weight, norm=norm, eps=eps, backend=backend)
        return logits if out is None else out.copy_(logits)

    def tensors(self) -> dict[str, Tensor | QuantRows]:
        """Checkpoint name -> where it goes. Parts of a stacked weight are views of their rows."""
        found = {"model.embed_tokens.weight": self.embedding, "model.norm.weight": self.final_norm}
        if not self.spec.tied:
            found["lm_head.weight"] = self.head_weight
        for index, layer in enumerate(self.layers):
            found |= {f"model.layers.{index}.{name}": tensor for name, tensor in self._layer_tensors(layer).items()}
        return found

    def _layer_tensors(self, layer: Layer) -> dict[str, Tensor | QuantRows]:
        found = {f"{part}.weight": getattr(layer, name) for name, (part, _) in self.spec.norms.items()}
        for product in (layer.qkv, layer.o, layer.gate_up, layer.down):
            sizes = [rows for _, rows in product.spec.parts]
            for kind, whole in (("weight", product.weight), ("bias", product.bias)):
                views = whole.split(sizes) if whole is not None else ()
                found |= {f"{part}.{kind}": view for (part, _), view in zip(product.spec.parts, views)}
        return found
