"""The tiny model as it is trained: a Llama with dropout, small enough to read in one go.

Modules are named as in Hugging Face's `LlamaModel`, so that the state dict *is* the checkpoint; `card.py` proves it by
loading the saved files with transformers and measuring again. The engine does not use this file: it computes with
`engine/worker`. Training on 2 million tokens many times over needs dropout in places where transformers' Llama has none
(embedding, and what each sublayer adds to the residual stream); apart from that the two are the same function.

Shapes: B sequences, T tokens each, C hidden size, H query heads, K key-value heads, D head size.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import LlamaConfig


def rotary_tables(config: LlamaConfig, device: torch.device) -> tuple[Tensor, Tensor]:
    """Cosines and sines of the rotary position embedding, each (max positions, D), in fp32."""
    theta = config.rope_parameters["rope_theta"]
    inverse = theta ** -(torch.arange(0, config.head_dim, 2, device=device) / config.head_dim)
    angles = torch.outer(torch.arange(config.max_position_embeddings, device=device), inverse).repeat(1, 2)
    return angles.cos(), angles.sin()


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotate each pair (x[d], x[d + D/2]) of x (B, heads, T, D) by its position's angle."""
    first, second = x.chunk(2, dim=-1)
    return (x * cos + torch.cat((-second, first), dim=-1) * sin).to(x.dtype)


class Attention(nn.Module):
    """Causal self-attention with grouped queries: H/K query heads share one key-value head."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.head_dim = config.head_dim
        kv_size = config.num_key_value_heads * config.head_dim
        self.q_proj = nn.Linear(config.hidden_size, config.num_attention_heads * config.head_dim, bias=False)
        self.k_proj = nn.Linear(config.hidden_size, kv_size, bias=False)
        self.v_proj = nn.Linear(config.hidden_size, kv_size, bias=False)
        self.o_proj = nn.Linear(config.num_attention_heads * config.head_dim, config.hidden_size, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        q, k, v = (self._heads(projection(x)) for projection in (self.q_proj, self.k_proj, self.v_proj))
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return self.o_proj(mixed.transpose(1, 2).flatten(2))

    def _heads(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (-1, self.head_dim)).transpose(1, 2)  # (B, T, heads * D) -> (B, heads, T, D)


class MLP(nn.Module):
    """The SwiGLU feed-forward layer: down(silu(gate(x)) * up(x))."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.up_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    """One decoder layer: each sublayer reads the normed stream and adds its (dropped-out) result to it."""

    def __init__(self, config: LlamaConfig, dropout: float) -> None:
        super().__init__()
        self.input_layernorm = nn.RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.self_attn = Attention(config)
        self.post_attention_layernorm = nn.RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.mlp = MLP(config)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        x = x + self.dropout(self.self_attn(self.input_layernorm(x), cos, sin))
        return x + self.dropout(self.mlp(self.post_attention_layernorm(x)))


class Network(nn.Module):
    """The decoder with tied embeddings. Its output is the loss: nothing here ever needs the logits."""

    def __init__(self, config: LlamaConfig, dropout: float, device: torch.device) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(Layer(config, dropout) for _ in range(config.num_hidden_layers))
        self.norm = nn.RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.dropout = nn.Dropout(dropout)
        self.to(device)
        for name, table in zip(("cos", "sin"), rotary_tables(config, device), strict=True):
            self.register_buffer(name, table, persistent=False)
        self._initialise(config)

    def _initialise(self, config: LlamaConfig) -> None:
        """Draw matrices with deviation 0.02, and less for those whose results add up in the residual stream (GPT-2)."""
        for name, weight in self.named_parameters():
            if weight.dim() == 2:
                adds = name.endswith(("o_proj.weight", "down_proj.weight"))
                nn.init.normal_(weight, std=0.02 / (2 * config.num_hidden_layers) ** 0.5 if adds else 0.02)

    def forward(self, tokens: Tensor) -> Tensor:
        """Mean cross-entropy, in nats, of each token of `tokens` (B, T + 1) given those before it."""
        inputs, targets = tokens[:, :-1], tokens[:, 1:]
        cos, sin = self.cos[: inputs.shape[1]], self.sin[: inputs.shape[1]]
        x = self.dropout(self.embed_tokens(inputs))  # (B, T, C)
        for layer in self.layers:
            x = layer(x, cos, sin)
        logits = F.linear(self.norm(x), self.embed_tokens.weight)  # (B, T, vocabulary)
        return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())
