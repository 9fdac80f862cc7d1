"""What a model is: dimensions, and one ``LinearSpec`` per matrix product.

The loader, the memory map and the roofline all read these specs, so that a product is described in one place. Families
differ in three switches only: biases, the norm on queries and keys, and tied embeddings.
"""

from dataclasses import dataclass

import torch

from engine.worker.rope import RopeSpec
from kernels.kv_format import LARGEST
from kernels.quantise import stored_bytes

SCALE_BYTES = 2  # fp16, per token and head of an 8-bit KV pool


@dataclass(frozen=True)
class LinearSpec:
    """One product ``y = x W^T (+ b)`` whose weight stacks several checkpoint tensors along the output.

    Args:
        name: of the product within a layer, e.g. ``"qkv"``.
        parts: checkpoint name within the layer and output rows, in stacking order.
        inputs: columns of the weight.
        bias: whether each part has one.
        shard: the axis that tensor parallelism would cut ("outputs" or "inputs").
        format: how the weight is stored: "dense" (in the model's dtype), or one of ``kernels.quantise.FORMATS``.
    """

    name: str
    parts: tuple[tuple[str, int], ...]
    inputs: int
    bias: bool
    shard: str
    format: str = "dense"

    @property
    def outputs(self) -> int:
        """Rows of the stacked weight."""
        return sum(rows for _, rows in self.parts)

    @property
    def num_values(self) -> int:
        """Numbers stored: weight and bias."""
        return self.outputs * (self.inputs + self.bias)

    def num_bytes(self, dtype: torch.dtype) -> int:
        """Bytes on the device, of a model of ``dtype``: weight with its scales, and bias."""
        if self.format == "dense":
            return self.num_values * dtype.itemsize
        return stored_bytes(self.format, self.outputs, self.inputs) + self.bias * self.outputs * dtype.itemsize


@dataclass(frozen=True)
class ModelSpec:
    """Everything the engine needs to know about a decoder. Sizes in numbers unless the name says bytes."""

    name: str
    family: str  # llama, qwen2, qwen3
    vocab_size: int  # rows of the embedding
    num_token_ids: int  # ids the tokenizer knows; the rest is padding and is never chosen
    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_q_heads: int
    num_kv_heads: int
    head_dim: int
    rms_eps: float
    rope: RopeSpec
    max_positions: int  # context the model was made for
    max_model_len: int  # context this engine offers
    eos_ids: frozenset[int]
    tied: bool
    qkv_bias: bool
    o_bias: bool
    mlp_bias: bool
    qk_norm: bool
    dtype: torch.dtype
    kv_dtype: torch.dtype
    weight_format: str = "dense"  # of the layers' products; embedding, head and norms stay in dtype

    @property
    def linears(self) -> tuple[LinearSpec, ...]:
        """The four products of one layer, in the order they run."""
        q, kv = self.num_q_heads * self.head_dim, self.num_kv_heads * self.head_dim
        hidden, inner = self.hidden_size, self.intermediate_size
        attention, mlp = "self_attn.", "mlp."
        qkv = ((attention + "q_proj", q), (attention + "k_proj", kv), (attention + "v_proj", kv))
        gate_up = ((mlp + "gate_proj", inner), (mlp + "up_proj", inner))
        return (
            LinearSpec("qkv", qkv, hidden, self.qkv_bias, "outputs", self.weight_format),
            LinearSpec("o", ((attention + "o_proj", hidden),), q, self.o_bias, "inputs", self.weight_format),
            LinearSpec("gate_up", gate_up, hidden, self.mlp_bias, "outputs", self.weight_format),
            LinearSpec("down", ((mlp + "down_proj", hidden),), inner, self.mlp_bias, "inputs", self.weight_format),
        )

    @property
    def norms(self) -> dict[str, tuple[str, int]]:
        """Norm weights of one layer: our name -> (checkpoint name within the layer, size)."""
        names = {
            "input_norm": ("input_layernorm", self.hidden_size),
            "post_norm": ("post_attention_layernorm", self.hidden_size),
        }
        if self.qk_norm:
            names["q_norm"] = ("self_attn.q_norm", self.head_dim)
            names["k_norm"] = ("self_attn.k_norm", self.head_dim)
        return names

    @property
    def num_parameters(self) -> int:
        """Parameters of the whole model; a tied embedding counts once."""
        layer = sum(linear.num_values for linear in self.linears) + sum(size for _, size in self.norms.values())
        embeddings = self.vocab_size * self.hidden_size * (1 if self.tied else 2)
        return self.num_layers * layer + embeddings + self.hidden_size

    @property
    def weight_bytes(self) -> int:
        """Bytes of all weights on the device."""
        products = sum(linear.num_values for linear in self.linears) * self.num_layers
        return (self.num_parameters - products) * self.dtype.itemsize + self.product_bytes

    @property
    def product_bytes(self) -> int:
        """Bytes of the products of all layers, scales and biases included."""
        return self.num_layers * sum(linear.num_bytes(self.dtype) for linear in self.linears)

    @property
    def kv_bytes_per_token(self) -> int:
        """Bytes of keys and values that one token adds, over all layers, with the scales of an 8-bit format."""
        head = self.head_dim * self.kv_dtype.itemsize + (SCALE_BYTES if self.kv_has_scales else 0)
        return 2 * self.num_layers * self.num_kv_heads * head

    @property
    def kv_has_scales(self) -> bool:
        """Whether keys and values are stored in 8 bits, beside a scale per token and head."""
        return self.kv_dtype in LARGEST

    @property
    def kv_identity(self) -> str:
        """What a block's content depends on besides its tokens: model, its numbers' format and that of the pool."""
        return f"{self.name} {self.dtype} {self.kv_dtype}"
