"""The prefix tree and the next evictions as plain numbers and words, ready for JSON. Asked for only by who looks."""

from engine.trace.prefix_tree import Node, eviction_order, prefix_tree
from engine.trace.state import State
from engine.trace.views import label

NODES_SHOWN, TEXT_SHOWN, TURNS_SHOWN = 200, 90, 16


def tree_view(state: State) -> dict:
    """The nodes parents first with their ``depth``, at most ``NODES_SHOWN``; and whose turn it is to be evicted.

    Of ``order``, each entry is one block that is handed out next: ``owner`` is empty when it holds no content.
    """
    lines: list[dict] = []
    stack = [(node, 0) for node in reversed(prefix_tree(state))]
    count = 0
    while stack:
        node, depth = stack.pop()
        stack += [(child, depth + 1) for child in reversed(node.children)]
        count += 1
        if len(lines) < NODES_SHOWN:
            lines.append(_line(state, node, depth))
    turns = eviction_order(state, TURNS_SHOWN)
    order = [{"block": turn.block, "owner": label(turn.owner), "orphans": turn.orphans} for turn in turns]
    return {"step": state.step.number, "nodes": lines, "left_out": count - len(lines), "order": order}


def _line(state: State, node: Node, depth: int) -> dict:
    return {
        "depth": depth,
        "blocks": node.blocks,
        "first_token": node.first_token,
        "tokens": node.tokens,
        "refs": node.refs,
        "age": node.age,
        "evicted_after": node.evicted_after,
        "reachable": node.reachable,
        "owner": node.owner,
        "id": state.pool.owner[node.blocks[-1]],
        "text": node.text[:TEXT_SHOWN],
    }
