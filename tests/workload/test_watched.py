"""Guards the record of decisions that the scheduler lesson reads: it must be what the engine did."""

import pytest

from engine.config import SchedulingConfig
from engine.workload.items import Item
from engine.workload.watched import admitted_by_rule, watched

LIMITS = {
    "rows": {"max_num_seqs": 2, "token_budget": 64, "pool_blocks": 48},
    "tokens": {"max_num_seqs": 8, "token_budget": 12, "pool_blocks": 64},
    "blocks": {"max_num_seqs": 8, "token_budget": 64, "pool_blocks": 10},
}
REASONS = {"rows": "max_num_seqs", "tokens": "token_budget", "blocks": "no_free_blocks"}


@pytest.mark.parametrize("scarce", LIMITS)
def test_what_is_scarce_is_the_reason(scarce: str) -> None:
    """Guards reasons and numbers: each limit shows as its own reason, and the rule explains every admission."""
    items = [Item([token % 97 for token in range(length)], 6, 6) for length in (20, 40, 9, 33, 50, 17)]
    found = watched(items, SchedulingConfig(max_model_len=128, prefix_cache=False, **LIMITS[scarce]))
    steps = found["steps"]
    assert REASONS[scarce] in {step["reason"] for step in steps}
    assert sorted({request for step in steps for request in step["admitted"]}) == list(range(6))
    for step in steps:
        assert admitted_by_rule(step, found["block_size"], found["watermark"]) == step["admitted"]
        assert step["decodes"] + sum(step["chunk_tokens"]) <= step["budget"]
