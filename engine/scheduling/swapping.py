"""Recompute or swap in: how much of a prefix that is partly in the host is taken, and how much is computed again.

=======  ===========================================================================================================
swap     takes
=======  ===========================================================================================================
never    nothing: evicted content is lost, as without host blocks
always   the longest prefix that pool and host hold together
cheaper  of that as much as costs least: a block from the host costs its copy, one of the pool nothing, and each block
         behind the cut, wherever it is, the prefill of its tokens
=======  ===========================================================================================================

The model is linear: ``swap_us_per_token`` and ``prefill_us_per_token`` are measured once per model and machine
(``engine.workload.swap_cost``). What it leaves out: attention makes prefill of long contexts dearer than its mean, and
a copy that overlaps with computing is cheaper than its bytes; both speak for swapping.
"""

from collections.abc import Callable, Sequence
from itertools import accumulate

from engine.config import SchedulingConfig

IN_HOST = 0  # stands in a list of hits for a block that is to be copied in: never referenced, as block 0 is
Worth = Callable[[Sequence[int]], int]  # hits -> how many of them, from the first on, are worth taking


def everything(hits: Sequence[int]) -> int:
    """``always``."""
    return len(hits)


def cheapest(swap_us: float, prefill_us: float) -> Worth:
    """``cheaper``: the cut that costs least, of equal ones the longest prefix. Costs per token."""

    def worth(hits: Sequence[int]) -> int:
        gains = accumulate((prefill_us - swap_us * (block == IN_HOST) for block in hits), initial=0.0)
        return max(enumerate(gains), key=lambda cut: (cut[1], cut[0]))[0]

    return worth


def policy(config: SchedulingConfig) -> Worth | None:
    """The policy of a configuration; None when nothing is kept in the host."""
    if not (config.host_blocks and config.prefix_cache) or config.swap == "never":
        return None
    return everything if config.swap == "always" else cheapest(config.swap_us_per_token, config.prefill_us_per_token)
