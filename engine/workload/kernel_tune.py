"""``bench kernels --tune SHAPE``: measures the tiles of a model's products on this machine, and keeps the fastest.

Needed once per card, model shape and Triton version, on cards that differ from the one behind the rule of
``kernels.product_tiles``. Every measurement works on inputs of its own, so products that add to their residual in
place spoil nobody's data; nothing is tuned while an engine serves.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch

from engine.errors import InvalidRequest
from engine.worker.shapes import random_spec
from engine.workload.drive import Progress, silent
from engine.workload.kernel_bench import time_calls
from engine.workload.kernel_cases import EPS, random, sets
from kernels import product_tiles, tuning
from kernels.product_tiles import COMPOSED, Tile
from kernels.products import product
from kernels.rmsnorm import rmsnorm
from kernels.skinny import linear_reference

ROWS = (16, 32, 64)  # tokens; what is chosen serves all numbers of tokens up to the next


@dataclass(frozen=True)
class Layer:
    """A product of a layer at a number of tokens, and what surrounds it."""

    name: str
    rows: int
    outputs: int
    inputs: int

    @property
    def norm(self) -> bool:
        """Whether x is normed first."""
        return self.name in ("qkv", "gate_up")

    @property
    def gated(self) -> bool:
        """Whether the outputs are a gate and what it lets through."""
        return self.name == "gate_up"

    @property
    def key(self) -> str:
        """Under which its tile is kept."""
        return product_tiles.tuning_key(self.rows, self.outputs, self.inputs, self.norm, self.gated)


Measure = Callable[..., float]  # of (layer, tile, device=)


def products_of(shape: str) -> list[Layer]:
    """The products of a model shape that tiles exist for."""
    spec = random_spec(shape, torch.bfloat16, torch.bfloat16, 128)
    return [Layer(each.name, rows, each.outputs, each.inputs) for each in spec.linears for rows in ROWS]


def microseconds(layer: Layer, tile: Tile, *, device: str) -> float:
    """Of the product with this tile, in a CUDA graph over rotating weights."""
    x = random(layer.rows, layer.inputs, device=device)
    count = sets(2 * layer.outputs * layer.inputs, device)
    weights = [random(layer.outputs, layer.inputs, device=device) / layer.inputs**0.5 for _ in range(count)]
    norm = random(layer.inputs, device=device) if layer.norm else None
    residual = None if layer.norm else random(layer.rows, layer.outputs, device=device)

    def call(weight: torch.Tensor) -> torch.Tensor:
        if tile == COMPOSED:
            return linear_reference(x, weight, None, norm, EPS, layer.gated, residual, backend="triton")
        normed = x if norm is None else rmsnorm(x, norm, EPS)
        return product(normed, weight, None, layer.gated, residual, tile)

    return time_calls([partial(call, weight) for weight in weights], device)


def tune(
    shape: str, device: str, progress: Progress = silent, measure: Measure = microseconds
) -> list[tuple[Layer, Tile]]:
    """Choose, or find again, the tile of every product of a model shape.

    Raises:
        InvalidRequest: for a device without tiles.
    """
    if measure is microseconds and device != "cuda":
        raise InvalidRequest("tune", "a CUDA device", device)
    layers, target = products_of(shape), torch.device(device)
    shared, chosen = product_tiles.shared_memory(target), []
    for index, layer in enumerate(layers):
        progress(f"tuning {layer.name}, {layer.rows} tokens", index / len(layers))
        tiles = product_tiles.candidates(layer.rows, layer.outputs, layer.inputs, shared)
        cost = partial(measure, layer, device=device)
        chosen.append((layer, tuning.choose(product_tiles.KERNEL, layer.key, tiles, cost, target)))
    product_tiles.choose.cache_clear()
    return chosen


def table(chosen: list[tuple[Layer, Tile]]) -> str:
    """One line per product."""
    lines = []
    for layer, tile in chosen:
        how = "library" if tile == COMPOSED else "x".join(map(str, tile[:3])) + f", K over {tile.splits} programs"
        lines.append(f"{layer.name:8} {layer.rows:3} tokens  {layer.inputs:6} -> {layer.outputs:6}  {how}")
    return "\n".join([*lines, f"kept in {tuning.tiles_file()}"])
