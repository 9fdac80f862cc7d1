"""The pool against a model that is obviously right: a list, a dict of counts and a dict of contents."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from engine.config import SchedulingConfig
from engine.scheduling.block_pool import BlockPool
from engine.scheduling.eviction import NO_CONTENT
from tests.scheduling.simulation import Simulation, make_request


class PoolMachine(RuleBasedStateMachine):
    """Random takes, hits, registrations and releases. Guards the order of the free list, the counts and the content
    index: a block that is handed out twice, lost, evicted too early or still addressable after its eviction."""

    @initialize(size=st.integers(1, 8), eviction=st.sampled_from(["lru", "priority", "flat-lru"]))
    def start(self, size: int, eviction: str) -> None:
        self.pool = BlockPool(size, eviction)
        self.eviction = eviction
        self.by_age = list(range(1, size + 1))
        self.level = dict.fromkeys(self.by_age, NO_CONTENT)
        self.contents: dict[int, bytes] = {}
        self.tables: list[list[int]] = []

    @property
    def order(self) -> list[int]:
        """Stable: equal levels stay in the order in which they were freed."""
        return sorted(self.by_age, key=lambda block: -self.level[block])

    @precondition(lambda self: self.by_age)
    @rule(data=st.data())
    def take(self, data: st.DataObject) -> None:
        count = data.draw(st.integers(1, len(self.by_age)))
        expected = self.order[:count]
        assert self.pool.take(count) == expected
        for block in expected:
            self.by_age.remove(block)
            self.contents.pop(block, None)
            self.level[block] = NO_CONTENT
        self.tables.append(expected)

    @precondition(lambda self: self.tables)
    @rule(data=st.data())
    def register(self, data: st.DataObject) -> None:
        block = data.draw(st.sampled_from([block for table in self.tables for block in table]))
        content = data.draw(st.sampled_from([b"a", b"b", b"c"]))
        self.pool.register(block, content)
        if block not in self.contents and content not in self.contents.values():
            self.contents[block] = content

    @rule(content=st.sampled_from([b"a", b"b", b"c"]))
    def hit(self, content: bytes) -> None:
        block = self.pool.find(content)
        assert block == next((b for b, held in self.contents.items() if held == content), None)
        if block is not None:
            self.pool.retain(block)
            if block in self.by_age:
                self.by_age.remove(block)
            self.tables.append([block])

    @precondition(lambda self: self.tables)
    @rule(data=st.data(), priority=st.integers(-1, 2))
    def release(self, data: st.DataObject, priority: int) -> None:
        table = self.tables.pop(data.draw(st.integers(0, len(self.tables) - 1)))
        full = data.draw(st.integers(0, len(table)))
        self.pool.release(table, full, priority)
        if self.eviction == "priority":
            self.level |= {block: min(priority, self.level[block]) for block in table[:full]}
        held = {block for other in self.tables for block in other}
        freed = table if self.eviction == "flat-lru" else reversed(table)
        self.by_age += [block for block in freed if block not in held]

    @rule()
    def announce(self) -> None:
        """A step was recorded."""
        self.pool.newly_hashed, self.pool.evicted = {}, []

    @rule()
    def forget(self) -> None:
        self.by_age = self.order
        self.level = dict.fromkeys(self.level, NO_CONTENT)
        self.pool.forget_all()
        self.contents.clear()

    @invariant()
    def same(self) -> None:
        if not hasattr(self, "pool"):
            return
        assert self.pool.order() == self.order
        assert self.pool.levels() == {block: at for block, at in self.level.items() if at != NO_CONTENT}
        assert self.pool.reclaimable == sum(block in self.contents for block in self.by_age)
        assert self.pool.free + self.pool.reclaimable == self.pool.available == len(self.by_age)
        assert self.pool.hashed() == sorted(set(self.contents) - set(self.pool.newly_hashed))
        self.pool.check_integrity(self.tables)


TestBlockPool = PoolMachine.TestCase
TestBlockPool.settings = settings(max_examples=90, stateful_step_count=40, deadline=None)


def cached_tokens(eviction: str, *, important: int = 0) -> list[int]:
    """Hits of a system prompt of eight blocks, of 14, that comes back after two strangers who need five blocks each."""
    sim = Simulation(SchedulingConfig(pool_blocks=14, block_size=4, eviction=eviction))
    hits = []
    for turn in range(4):
        again = make_request(3 * turn, [*range(32), 99], 1, priority=important)
        strangers = [
            make_request(3 * turn + i, range(100 * turn + 50 * i, 100 * turn + 50 * i + 17), 1) for i in (1, 2)
        ]
        sim.run_each(again, *strangers)
        hits.append(again.num_cached_tokens)
    return hits


def test_eviction_decides_what_is_left_of_a_prefix():
    """With lru the strangers take the tail of the prompt. With priority they take blocks without content first, and
    those of one another when the prompt is more important. With flat-lru they take its head, and the rest is lost."""
    assert cached_tokens("lru") == [0, 16, 16, 16]
    assert cached_tokens("priority", important=-1) == [0, 32, 32, 32]
    assert cached_tokens("priority") == [0, 20, 20, 20]
    assert cached_tokens("flat-lru") == [0, 0, 0, 0]


@pytest.mark.parametrize("block_size", [1, 2, 3, 16, 17, 255, 256])
def test_block_sizes(block_size: int):
    """Whole blocks and single tokens around them, cached and computed again, at the ends of the allowed range."""
    sim = Simulation(SchedulingConfig(pool_blocks=4, block_size=block_size, max_model_len=2048))
    prompts = [range(count) for count in {1, block_size, block_size + 1, 2 * block_size} - {0}]
    for number, prompt in enumerate(prompts * 2):
        sim.run_each(make_request(number, prompt, min(3, block_size)))
    assert all(request.num_cached_tokens % block_size == 0 for request in sim.requests)
    assert sim.requests[-1].num_cached_tokens == (len(prompts[-1]) - 1) // block_size * block_size
