"""The models and links that the articles name. Sizes are those of the published configurations; rates are declared by
the makers (datasheets), so that what follows from them is Computed and says nothing about a card at hand."""

from dataclasses import dataclass

from engine.workload.limits import Machine, ModelShape

LLAMA_13B = ModelShape(5120, 40, 40, 40, 128, 13_824, 32_000, tied=False)
LLAMA_70B = ModelShape(8192, 80, 64, 8, 128, 28_672, 128_256, tied=False)
LLAMA_8B = ModelShape(4096, 32, 32, 8, 128, 14_336, 128_256, tied=False)

A100 = Machine(bandwidth=2.039e12, flops=312e12)
A100_MEMORY = 80 * 2**30  # bytes
NVLINK, PCIE = 300e9, 32e9  # bytes/s in one direction: A100's NVLink, PCIe 4.0 x16
LINK_LATENCY_S = 10e-6  # of one all-reduce


@dataclass(frozen=True, slots=True)
class Split:
    """Seconds of a tensor-parallel layer: computing on one of the ranks, and both all-reduces."""

    compute_s: float
    bytes_s: float
    latency_s: float

    def share(self, with_latency: bool = True) -> float:
        """Part of the layer's time that the all-reduces take."""
        moving = self.bytes_s + (self.latency_s if with_latency else 0.0)
        return moving / (self.compute_s + moving)


def all_reduce_bytes(ranks: int, tokens: int, hidden: int, element_bytes: int = 2) -> float:
    """Bytes that each rank sends in a ring all-reduce of ``tokens`` x ``hidden`` numbers."""
    return 2 * (ranks - 1) / ranks * tokens * hidden * element_bytes


def split(shape: ModelShape, ranks: int, tokens: int, link: float = NVLINK, machine: Machine = A100) -> Split:
    """One layer on ``ranks`` GPUs: its products at the floor of ``machine``, and two all-reduces."""
    weights = shape.layer_weights / shape.layers / ranks
    compute = max(weights * shape.element_bytes / machine.bandwidth, 2 * weights * tokens / machine.flops)
    return Split(compute, 2 * all_reduce_bytes(ranks, tokens, shape.hidden) / link, 2 * LINK_LATENCY_S)


def weight_bytes(shape: ModelShape) -> float:
    """Bytes of all weights: those that a step streams, and the input embedding when it is not tied."""
    embedding = 0 if shape.tied else shape.vocab * shape.hidden * shape.element_bytes
    return shape.streamed_bytes + embedding


def activation_bytes(shape: ModelShape, tokens: int) -> float:
    """Bytes of the largest tensors of a step that live together: gate, up, their product, and three hidden ones."""
    return tokens * 3 * (shape.intermediate + shape.hidden) * shape.element_bytes


def logits_bytes(shape: ModelShape, rows: int) -> float:
    """Bytes of two fp32 copies of the logits of ``rows`` rows."""
    return 2 * rows * shape.vocab * 4
