"""Physical limits: the least time that a step can take on a machine, from bytes and operations alone.

Component floor of a decode step = max(weight bytes / bandwidth, products' FLOP / peak) + max(KV bytes / bandwidth,
attention's FLOP / peak) + logits written and read. Every weight that a product uses is read once a step; the input
embedding is a row gather and counts only when the head is tied to it. *Floor* is said of time, *limit* of tokens/s.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Machine:
    """What one device was measured to do: bytes/s (the larger of copy and read) and matmul FLOP/s."""

    bandwidth: float
    flops: float


@dataclass(frozen=True, slots=True)
class ModelShape:
    """The sizes that the floors depend on. ``element_bytes`` of weights, ``kv_bytes_per_token`` over all layers."""

    hidden: int
    layers: int
    query_heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocab: int
    tied: bool
    qk_norm: bool = False
    element_bytes: float = 2.0
    kv_bytes_per_token: float = 0.0  # 0: element_bytes per number
    product_bytes: float = 0.0  # of the layers' products where they are quantised; 0: element_bytes per weight

    @property
    def layer_weights(self) -> int:
        """Weights of the products of all layers: QKV, output, gate, up and down."""
        attention = 2 * self.hidden * self.head_dim * (self.query_heads + self.kv_heads)
        return self.layers * (attention + 3 * self.hidden * self.intermediate)

    @property
    def head_weights(self) -> int:
        """Weights of the output head."""
        return self.vocab * self.hidden

    @property
    def norm_weights(self) -> int:
        """Weights of all norms."""
        per_layer = 2 * self.hidden + (2 * self.head_dim if self.qk_norm else 0)
        return self.layers * per_layer + self.hidden

    @property
    def streamed_bytes(self) -> float:
        """Weight bytes that one step reads."""
        products = self.product_bytes or self.layer_weights * self.element_bytes
        return products + (self.head_weights + self.norm_weights) * self.element_bytes

    @property
    def kv_bytes(self) -> float:
        """KV bytes of one token, keys and values of all layers."""
        numbers = 2 * self.layers * self.kv_heads * self.head_dim
        return self.kv_bytes_per_token or numbers * self.element_bytes


@dataclass(frozen=True, slots=True)
class Floor:
    """Seconds of one step by component."""

    products: float
    attention: float
    logits: float

    @property
    def total(self) -> float:
        """Seconds of the whole step."""
        return self.products + self.attention + self.logits


def decode_floor(shape: ModelShape, rows: int, context: float, machine: Machine) -> Floor:
    """Floor of a decode step of ``rows`` rows whose contexts hold ``context`` tokens on average."""
    weights = shape.layer_weights + shape.head_weights
    products = max(shape.streamed_bytes / machine.bandwidth, 2 * weights * rows / machine.flops)
    kv_read = rows * (context + 1) * shape.kv_bytes / machine.bandwidth
    scores = 4 * rows * context * shape.layers * shape.query_heads * shape.head_dim / machine.flops
    return Floor(products, max(kv_read, scores), rows * shape.vocab * 4 / machine.bandwidth)


def prefill_flop(shape: ModelShape, tokens: int, start: int = 0) -> float:
    """FLOP of prefilling ``tokens`` behind ``start`` cached ones: products, one row of logits, causal attention."""
    products = 2 * shape.layer_weights * tokens + 2 * shape.head_weights
    pairs = tokens * (tokens + 1) / 2 + tokens * start
    return products + 4 * shape.layers * shape.query_heads * shape.head_dim * pairs


def prefill_floor(shape: ModelShape, tokens: int, machine: Machine, start: int = 0) -> float:
    """Seconds, at least, to prefill one prompt alone."""
    return max(prefill_flop(shape, tokens, start) / machine.flops, shape.streamed_bytes / machine.bandwidth)


def offline_floor(
    shape: ModelShape, lengths: Sequence[tuple[int, int]], machine: Machine, rows: int | None = None
) -> dict[str, float]:
    """Floor of a whole workload, all at t=0: every prompt at the matmul peak, then ideal in-flight decoding.

    Args:
        lengths: (prompt, output) tokens of each request.
        rows: how many run at once, longest output first; None: all.

    Returns:
        ``prefill_s``, ``decode_s``, ``total_s``, ``steps`` and ``output_throughput`` (the limit, tokens/s).
    """
    prefill = sum(prefill_flop(shape, prompt) for prompt, _ in lengths) / machine.flops
    decode, steps = 0.0, 0
    for count, context in _ideal_steps(lengths, rows or len(lengths)):
        decode += decode_floor(shape, count, context / count, machine).total
        steps += 1
    total = prefill + decode
    tokens = sum(output for _, output in lengths)
    return {
        "prefill_s": prefill,
        "decode_s": decode,
        "total_s": total,
        "steps": steps,
        "output_throughput": tokens / total,
    }


def _ideal_steps(lengths: Sequence[tuple[int, int]], rows: int) -> Iterator[tuple[int, int]]:
    """(rows, sum of their contexts) of each decode step; the first token of each answer comes from its prefill."""
    queue = sorted(((prompt + 1, output - 1) for prompt, output in lengths if output > 1), key=lambda pair: pair[1])
    running: list[list[int]] = []
    while queue or running:
        while queue and len(running) < rows:
            running.append(list(queue.pop()))
        yield len(running), sum(context for context, _ in running)
        running = [[context + 1, left - 1] for context, left in running if left > 1]


def shape_of(spec: object) -> ModelShape:
    """The sizes of a worker's ``ModelSpec`` (read by attribute: this part never imports the worker)."""
    return ModelShape(
        hidden=spec.hidden_size,
        layers=spec.num_layers,
        query_heads=spec.num_q_heads,
        kv_heads=spec.num_kv_heads,
        head_dim=spec.head_dim,
        intermediate=spec.intermediate_size,
        vocab=spec.vocab_size,
        tied=spec.tied,
        qk_norm=spec.qk_norm,
        element_bytes=spec.dtype.itemsize,
        kv_bytes_per_token=spec.kv_bytes_per_token,
        product_bytes=0.0 if spec.weight_format == "dense" else spec.product_bytes,
    )
