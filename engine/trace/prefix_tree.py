"""The cached prefixes as a tree, and what would be evicted next. Folded from the trace, badged Computed.

The trace says which blocks are addressable, but not behind which block each one stands. That follows from the tokens:
a block is entry ``index`` of the table of its ``owner``, so its content is the first (index + 1) x block_size tokens of
that request, and its parent is the addressable block with one block of tokens less. Twins, which computed the same
prefix side by side, meet that way too: their tails hang behind the one copy that is addressable.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from engine.trace.state import State
from engine.trace.views import label

ROOT: int = hash(())


@dataclass(slots=True)
class Node:
    """A run of addressable blocks, each the only child of the one before it, all held by equally many requests."""

    blocks: list[int]
    first_token: int  # position of its first token in every prompt that has this prefix
    tokens: int
    refs: int  # requests that hold it now
    age: int  # steps since anybody held its youngest block; 0: held in the last one
    evicted_after: int  # blocks handed out before the first of its own goes; -1: all are held
    reachable: bool  # False: a block before it is gone, so no request can hit it any more
    owner: str  # label of the last request that used it
    text: str
    children: list["Node"] = field(default_factory=list)

    def walk(self) -> Iterator["Node"]:
        """This node and all below it, parents first."""
        stack = [self]
        while stack:
            yield (node := stack.pop())
            stack += reversed(node.children)


@dataclass(frozen=True, slots=True)
class Turn:
    """One block of the free list: which, whose content it still holds (-1: none), what becomes unreachable with it."""

    block: int
    owner: int
    orphans: int  # addressable blocks behind it, at the time of its turn


def prefix_tree(state: State) -> list[Node]:
    """The roots: prefixes that start at the first token, then those whose beginning has been evicted."""
    chain = _Chain(state)
    place = {block: i for i, block in enumerate(state.pool.free_order())}
    roots = [_node(state, chain, place, block) for block, parent in chain.parent.items() if parent is None]
    grow = list(roots)
    while grow:  # not by recursion: a chain may be as long as a context
        node = grow.pop()
        node.children = [_node(state, chain, place, child, node) for child in chain.children[node.blocks[-1]]]
        grow += node.children
    return sorted(roots, key=lambda node: (not node.reachable, node.blocks[0]))


def eviction_order(state: State, limit: int = 32) -> list[Turn]:
    """The next ``limit`` blocks to be handed out, if nothing is freed or hit meanwhile."""
    chain, gone, turns = _Chain(state), set(), []
    for block, _ in zip(state.pool.free_order(), range(limit)):
        gone.add(block)
        content = block in chain.parent
        orphans = sum(child not in gone for child in chain.below(block)) if content else 0
        turns.append(Turn(block, state.pool.owner[block] if content else -1, orphans))
    return turns


class _Chain:
    """Parents and children of the addressable blocks whose tokens the state still knows."""

    def __init__(self, state: State) -> None:
        self.state, self.size = state, state.block_size
        self._keys: dict[int, list[int]] = {}  # request -> hash of its first 0, 1, 2 ... blocks of tokens
        pool = state.pool
        known = [b for b, hashed in enumerate(pool.hashed) if hashed and self._tokens_known(b)]
        by_content = {self._key(block, pool.index[block] + 1): block for block in known}
        self.parent = {block: by_content.get(self._key(block, pool.index[block])) for block in known}
        self.children: dict[int, list[int]] = {block: [] for block in known}
        for block, parent in self.parent.items():
            if parent is not None:
                self.children[parent].append(block)

    def below(self, block: int) -> Iterator[int]:
        """All blocks behind this one."""
        stack = list(self.children[block])
        while stack:
            yield (child := stack.pop())
            stack += self.children[child]

    def _tokens_known(self, block: int) -> bool:
        view = self.state.requests.get(self.state.pool.owner[block])
        end = (self.state.pool.index[block] + 1) * self.size
        return view is not None and 0 < end <= view.num_tokens

    def _key(self, block: int, num_blocks: int) -> int:
        owner = self.state.pool.owner[block]
        keys = self._keys.setdefault(owner, [ROOT])
        tokens = self.state.requests[owner].token_ids
        while len(keys) <= num_blocks:
            start = (len(keys) - 1) * self.size
            keys.append(hash((keys[-1], *tokens[start : start + self.size])))
        return keys[num_blocks]


def _node(state: State, chain: _Chain, place: dict[int, int], block: int, parent: Node | None = None) -> Node:
    run, pool = [block], state.pool
    while len(after := chain.children[run[-1]]) == 1 and pool.refs[after[0]] == pool.refs[block]:
        run.append(after[0])
    owner, start = pool.owner[run[-1]], pool.index[block] * chain.size
    tokens = state.requests[owner].token_ids[start : start + len(run) * chain.size]
    return Node(
        blocks=run,
        first_token=start,
        tokens=len(tokens),
        refs=pool.refs[block],
        age=0 if pool.refs[block] else state.step.number - max(pool.used[b] for b in run),
        evicted_after=min((place[b] for b in run if b in place), default=-1),
        reachable=parent.reachable if parent else start == 0,
        owner=label(owner),
        text=state.text(tokens),
    )
