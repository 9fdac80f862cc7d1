"""The prefix tree and the order of eviction, folded from traces."""

from array import array

from hypothesis import given, settings
from hypothesis import strategies as st

from engine.config import SchedulingConfig
from engine.request import Request
from engine.scheduling.scheduler import Scheduler
from engine.trace.events import Cause, Leave
from engine.trace.prefix_tree import Node, eviction_order, prefix_tree
from engine.trace.state import State
from tests.scheduling.simulation import Simulation, make_request
from tests.trace.trace_runs import Played, Scenario
from tests.trace.trace_script import Script, admit, arrive, prefill, step


def shape(nodes: list[Node]) -> list:
    """Tokens, holders and children."""
    return [(node.tokens, node.refs, shape(node.children)) for node in nodes]


def simulation(**config: object) -> Simulation:
    return Simulation(SchedulingConfig(**{"block_size": 4, "pool_blocks": 16, "max_model_len": 64} | config))


def settle(sim: Simulation) -> State:
    """One more step, which announces what the last answer left in the cache."""
    sim.run_each(make_request(99, [99], 1))
    return sim.state


def test_a_shared_prompt_with_two_tails():
    """Eight shared tokens, then a tail of one block each: one run of two blocks with two children."""
    sim = simulation()
    sim.run_each(*(make_request(i, [*range(8), *[20 + i] * 5], 1) for i in range(2)))
    (root,) = prefix_tree(settle(sim))
    assert shape([root]) == [(8, 0, [(4, 0, []), (4, 0, [])])]
    assert root.reachable and root.first_token == 0 and [child.first_token for child in root.children] == [8, 8]


def test_twins_meet_in_one_tree():
    """Two equal prompts computed side by side have private copies of their prefix, one of which is addressable. The
    tail of the other one must hang behind it, not beside it."""
    sim = simulation()
    for number in range(2):
        sim.submit(make_request(number, [*range(8), *[20 + number] * 5], 1))
    sim.run()
    assert shape(prefix_tree(settle(sim))) == [(8, 0, [(4, 0, []), (4, 0, [])])]


def test_holders_split_a_run():
    """A running request holds the first two blocks of a cached prompt of three: held and idle parts are two nodes."""
    sim = simulation()
    sim.run_each(make_request(0, range(13), 1))
    sim.submit(make_request(1, [*range(8), 50], 6))
    sim.round()
    sim.round()
    (root,) = prefix_tree(sim.state)
    assert shape([root]) == [(8, 1, [(4, 0, [])])]
    assert root.age == 0 and root.evicted_after == -1
    assert root.children[0].age >= 1 and root.children[0].evicted_after >= 0


def test_flat_lru_leaves_orphans():
    """When the head of a chain has gone, the rest is still cached and can never be hit: it must be shown as such."""
    for eviction, reachable in (("lru", [True, True]), ("flat-lru", [True, False])):
        sim = simulation(pool_blocks=6, eviction=eviction)
        sim.run_each(make_request(0, range(12), 1), make_request(1, range(20, 34), 1))
        assert [node.reachable for node in prefix_tree(settle(sim))] == reachable


def test_the_preview_says_what_goes_with_a_block():
    """lru: the tail goes first and takes nothing with it. flat-lru: the head goes first, and two blocks are lost."""
    for eviction, orphans in (("lru", [0, 0, 0]), ("flat-lru", [2, 1, 0])):
        sim = simulation(pool_blocks=8, eviction=eviction)
        sim.run_each(make_request(0, range(12), 1))
        turns = eviction_order(settle(sim))
        assert [turn.block for turn in turns] == sim.scheduler.snapshot()["free"]
        assert [turn.orphans for turn in turns if turn.owner == 0] == orphans


def test_text_and_owner_of_a_node():
    """A node says what its tokens are and who used it last, in a hand-written trace."""
    script = Script().at(0, arrive(0, 9), admit(0, 0), prefill(0, 9, [1, 2, 3]), step(joined=[0], hashed=[1, 2]))
    (root,) = prefix_tree(script.timeline.state_at(99))
    assert (root.blocks, root.owner, root.refs) == ([1, 2], "A", 1)
    assert root.text.startswith("<0><1>")
    script.at(1, Leave(0, 0, 1, Cause.ABORT), step(), step())
    assert prefix_tree(script.timeline.state_at(99))[0].age == 2


def what_hits(scheduler: Scheduler, prompt: list[int]) -> list[int]:
    """The blocks that a prompt would hit, as the scheduler finds them."""
    return scheduler.kv.find_hits(Request(-1, prompt, None, 1, seed=0))


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_what_the_tree_says_can_be_hit_is_hit(seed):
    """The tree is made from tokens, the scheduler's cache from hashes: every path of the tree must be a hit of the
    scheduler, block for block, and what stands behind an evicted block must not."""
    state, done = State(), 0

    def follow(played: Played) -> None:
        nonlocal done
        for record in played.records[done:]:
            state.apply(record)
        done = len(played.sink.data)
        if state.pool.size and not state.step.number % 3:
            for root in prefix_tree(state):
                compare(played.scheduler, root, [])

    def compare(scheduler: Scheduler, node: Node, before: list[int]) -> None:
        path = before + node.blocks
        last = state.pool.owner[node.blocks[-1]]
        prompt = [*state.requests[last].token_ids[: node.first_token + node.tokens], 0]
        hits = what_hits(scheduler, prompt)
        assert (hits[: len(path)] == path) == node.reachable
        for child in node.children:
            compare(scheduler, child, path)

    Played(Scenario.draw(seed), follow, seed)


def test_a_tree_may_be_as_deep_as_a_context():
    """Recursion would end the page: 3,000 blocks in a chain, each held by another number of requests than the next."""
    blocks = list(range(1, 3001))
    script = Script(block_size=1, pool_blocks=3000).at(0, arrive(0, 3000), admit(0, 0), prefill(0, 3000, blocks))
    script.emit(step(hashed=blocks))
    state = script.timeline.state_at(99)
    state.pool.refs[1::2] = array("i", [2]) * 1500
    (root,) = prefix_tree(state)
    assert [node.blocks for node in root.walk()] == [[block] for block in blocks]
