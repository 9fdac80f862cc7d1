"""Three ways to give requests room for their KV, on paper: reserve-max, contiguous-grow and paged.

The engine has only the paged one. The others are what came before it, and exist to be compared on the same arrivals
(``allocator_replay``). Every token slot of the pool is at each step one of

====================  ===============================================================================================
used                  holds the KV of a token
reserved              set aside for a token that will really come
internal waste        set aside inside what a request holds, and no token comes (yet): the rest of a reservation that
                      is never reached; in a paged pool the rest of the last block
external waste        free, but in gaps too small for the request that is first in the queue
free                  free, and usable
====================  ===============================================================================================
"""

from bisect import insort
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, Protocol


@dataclass(frozen=True, slots=True)
class Demand:
    """What one request asks of an allocator. ``arrived``: the step before which it came."""

    request: int
    arrived: int
    prompt: int  # tokens
    output: int  # tokens generated in the end; at least 1

    @property
    def final(self) -> int:
        """Tokens whose KV it needs in the end: the last token is never computed."""
        return self.prompt + self.output - 1


class Slots(NamedTuple):
    """The token slots of the pool at one step. They add up to the pool."""

    used: int
    reserved: int
    internal: int
    external: int
    free: int


@dataclass(slots=True)
class Holding:
    """What one request holds. ``start`` is the first slot (contiguous allocators), ``size`` counts slots."""

    demand: Demand
    used: int
    size: int
    start: int = 0


class Allocator(Protocol):
    """Room for requests in a pool of ``pool`` token slots. Ids are those of the requests that hold something."""

    name: str
    pool: int
    held: dict[int, Holding]
    moved: int  # tokens copied to another place so far

    def admit(self, demand: Demand, tokens: int) -> bool:
        """Give a request room for its first ``tokens``. False, and nothing changed, when there is none."""

    def grow(self, request: int) -> bool:
        """Room for one more token. False, and nothing changed, when there is none."""

    def free(self, request: int) -> None:
        """The request gives everything back."""

    def slots(self, first: tuple[Demand, int] | None) -> Slots:
        """How the pool is used, while ``first`` waits at the head of the queue with so many tokens."""


class Contiguous(Allocator):
    """Each request holds one run of slots; the first gap that is large enough is taken."""

    def __init__(self, pool: int) -> None:
        self.pool = pool
        self.held: dict[int, Holding] = {}
        self._by_start: list[Holding] = []
        self.moved = 0

    def size_for(self, demand: Demand, tokens: int) -> int:
        """Slots that a request gets at admission."""
        raise NotImplementedError

    def admit(self, demand: Demand, tokens: int) -> bool:
        size = self.size_for(demand, tokens)
        start = self._first_fit(size)
        if start is not None:
            self._insert(Holding(demand, tokens, size, start))
        return start is not None

    def free(self, request: int) -> None:
        self._by_start.remove(self.held.pop(request))

    def gaps(self) -> list[tuple[int, int]]:
        """Free runs: first slot and length, in address order."""
        edges = [(0, 0), *((one.start, one.start + one.size) for one in self._by_start), (self.pool, self.pool)]
        return [(end, start - end) for (_, end), (start, _) in pairwise(edges) if start > end]

    def slots(self, first: tuple[Demand, int] | None) -> Slots:
        used = sum(one.used for one in self.held.values())
        reserved = sum(min(one.size, one.demand.final) - one.used for one in self.held.values())
        held = sum(one.size for one in self.held.values())
        need = self.size_for(*first) if first else 0
        external = sum(size for _, size in self.gaps() if size < need)
        return Slots(used, reserved, held - used - reserved, external, self.pool - held - external)

    def _first_fit(self, size: int) -> int | None:
        return next((start for start, room in self.gaps() if room >= size), None)

    def _insert(self, holding: Holding) -> None:
        self.held[holding.demand.request] = holding
        insort(self._by_start, holding, key=lambda one: one.start)


class ReserveMax(Contiguous):
    """Every request gets the longest context there can be, whatever it turns out to need."""

    name = "reserve-max"

    def __init__(self, pool: int, max_model_len: int) -> None:
        super().__init__(pool)
        self.reserve = min(max_model_len, pool)

    def size_for(self, demand: Demand, tokens: int) -> int:
        return self.reserve

    def grow(self, request: int) -> bool:
        self.held[request].used += 1
        return True


class ContiguousGrow(Contiguous):
    """A request starts with what it knows and doubles when it is full: in place, or by moving to a larger gap while the
    old place is still held. As a last resort it takes the slots behind it that happen to be free."""

    name = "contiguous-grow"

    def size_for(self, demand: Demand, tokens: int) -> int:
        return tokens

    def grow(self, request: int) -> bool:
        one = self.held[request]
        if one.used == one.size and not self._enlarge(one):
            return False
        one.used += 1
        return True

    def _enlarge(self, one: Holding) -> bool:
        behind = dict(self.gaps()).get(one.start + one.size, 0)
        if behind >= one.size:
            one.size *= 2
        elif (start := self._first_fit(2 * one.size)) is not None:
            self.moved += one.used
            self.free(one.demand.request)
            self._insert(Holding(one.demand, one.used, 2 * one.size, start))
        else:
            one.size += behind
            return behind > 0
        return True


class Paged(Allocator):
    """Blocks of ``block_size`` slots, wherever they are. Nothing is external; sharing of prefixes is not counted."""

    name = "paged"

    def __init__(self, pool: int, block_size: int) -> None:
        self.pool, self.block_size = pool, block_size
        self.held: dict[int, Holding] = {}
        self.moved = 0
        self._free = pool // block_size  # blocks

    def admit(self, demand: Demand, tokens: int) -> bool:
        blocks = -(-tokens // self.block_size)
        if blocks > self._free:
            return False
        self._free -= blocks
        self.held[demand.request] = Holding(demand, tokens, blocks * self.block_size)
        return True

    def grow(self, request: int) -> bool:
        one = self.held[request]
        if one.used == one.size:
            if not self._free:
                return False
            self._free -= 1
            one.size += self.block_size
        one.used += 1
        return True

    def free(self, request: int) -> None:
        self._free += self.held.pop(request).size // self.block_size

    def slots(self, first: tuple[Demand, int] | None) -> Slots:
        used, held = sum(one.used for one in self.held.values()), sum(one.size for one in self.held.values())
        return Slots(used, 0, held - used, 0, self.pool - held)
