"""Prefixes that prompts share: chains of blocks, as a prefix cache and as the Mooncake schema see them."""

from collections.abc import Iterable, Sequence
from random import Random

from engine.workload.items import Item

TOKEN_IDS = 10_000  # random ids are below; ``items.fit`` folds them into smaller vocabularies


def random_ids(rng: Random, count: int) -> list[int]:
    """``count`` token ids."""
    return [rng.randrange(TOKEN_IDS) for _ in range(count)]


class BlockNames:
    """Numbers the blocks of prompts in order of appearance: two blocks have the same number when they hold the same
    tokens behind the same prefix."""

    def __init__(self, block_size: int) -> None:
        self.block_size = block_size
        self._names: dict[tuple[int, tuple[int, ...]], int] = {}

    def of(self, prompt_ids: Sequence[int]) -> list[int]:
        """The number of each block of a prompt, a last one that is not full included."""
        names, parent = [], -1
        for start in range(0, len(prompt_ids), self.block_size):
            content = tuple(prompt_ids[start : start + self.block_size])
            parent = self._names.setdefault((parent, content), len(self._names))
            names.append(parent)
        return names


def prefix_ratio(items: Iterable[Item], block_size: int = 16) -> float:
    """Share of prompt tokens in full blocks that an earlier prompt began with too: the hits of an endless cache."""
    names, seen = BlockNames(block_size), set()
    shared = total = 0
    for item in items:
        full = names.of(item.prompt_ids[: len(item.prompt_ids) // block_size * block_size])
        shared += block_size * sum(name in seen for name in full)
        total += len(item.prompt_ids)
        seen.update(full)
    return shared / total if total else 0.0
