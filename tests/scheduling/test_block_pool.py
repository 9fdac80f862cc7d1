"""The pool against a model that is obviously right: a list, a dict of counts and a dict of contents."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from engine.scheduling.block_pool import BlockPool


class PoolMachine(RuleBasedStateMachine):
    """Random takes, hits, registrations and releases. Guards the order of the free list, the counts and the content
    index: a block that is handed out twice, lost, evicted too early or still addressable after its eviction."""

    @initialize(size=st.integers(1, 8))
    def start(self, size: int) -> None:
        self.pool = BlockPool(size)
        self.order = list(range(1, size + 1))
        self.contents: dict[int, bytes] = {}
        self.tables: list[list[int]] = []

    @precondition(lambda self: self.order)
    @rule(data=st.data())
    def take(self, data: st.DataObject) -> None:
        count = data.draw(st.integers(1, len(self.order)))
        expected, self.order = self.order[:count], self.order[count:]
        assert self.pool.take(count) == expected
        for block in expected:
            self.contents.pop(block, None)
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
            if block in self.order:
                self.order.remove(block)
            self.tables.append([block])

    @precondition(lambda self: self.tables)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        table = self.tables.pop(data.draw(st.integers(0, len(self.tables) - 1)))
        self.pool.release(reversed(table))
        held = {block for other in self.tables for block in other}
        self.order += [block for block in reversed(table) if block not in held]

    @rule()
    def announce(self) -> None:
        """A step was recorded."""
        self.pool.newly_hashed, self.pool.evicted = {}, []

    @rule()
    def forget(self) -> None:
        self.pool.forget_all()
        self.contents.clear()

    @invariant()
    def same(self) -> None:
        if not hasattr(self, "pool"):
            return
        assert self.pool.order() == self.order
        assert self.pool.reclaimable == sum(block in self.contents for block in self.order)
        assert self.pool.free + self.pool.reclaimable == self.pool.available == len(self.order)
        assert self.pool.hashed() == sorted(set(self.contents) - set(self.pool.newly_hashed))
        self.pool.check_integrity(self.tables)


TestBlockPool = PoolMachine.TestCase
TestBlockPool.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
