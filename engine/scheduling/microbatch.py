"""Which tokens run in a step: decodes first, one token each; the rest of the token budget goes to chunks of prompts."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from engine.config import SchedulingConfig
from engine.scheduling.capacity import Shortage
from engine.step import Eager
from engine.trace.events import Reason


class MicroBatchScheduler:
    """Divides the token budget of one step.

    ``fcfs``: the prompt that came first takes all it can. ``equal``: prompts make equal progress. Without chunked
    prefill a context runs whole or waits, unless no step could ever hold it (a long request that was preempted).
    """

    def __init__(self, config: SchedulingConfig) -> None:
        self.budget = config.token_budget
        self.equal = config.chunking == "equal"
        self.whole = not config.chunked_prefill
        self.buckets = sorted(config.graph_buckets)

    def tokens_left(self, decodes: int, remaining: Sequence[int]) -> int:
        """Tokens for newcomers, beside ``decodes`` rows and prompts with ``remaining`` tokens to compute."""
        return self.budget - decodes - sum(map(self.claim, remaining))

    def claim(self, remaining: int) -> int:
        """What one prompt takes from newcomers: all it lacks, or with equal progress a token at least."""
        return 1 if self.equal else remaining

    def shortage(self, remaining: int, left: int) -> Shortage | None:
        """Why a prompt with ``remaining`` tokens to compute gets none in this step; None when it gets some."""
        need = remaining if self._runs_whole(remaining) else 1
        return (Reason.TOKEN_BUDGET, need, max(left, 0)) if need > left else None

    def chunks(self, remaining: Sequence[int], decodes: int) -> list[int]:
        """Tokens of each prompt in this step, 0 for those that must wait. The sum and ``decodes`` keep the budget."""
        sizes = [0] * len(remaining)
        used = decodes
        order = sorted(range(len(remaining)), key=remaining.__getitem__) if self.equal else range(len(remaining))
        for place, index in enumerate(order):
            sharers = len(remaining) - place if self.equal else 1
            sizes[index] = self._chunk(remaining[index], (self.budget - used) // sharers)
            used += sizes[index]
            if sharers == 1 and 0 < sizes[index] < remaining[index]:  # took all that was left
                sizes[index] = self._cut(sizes[index], used - sizes[index])
                break
        return sizes

    def graph_for(self, tokens: int, decode: bool) -> tuple[int, Eager]:
        """Padded token count of the smallest graph that holds ``tokens``; 0, and why, when there is none."""
        index = bisect_left(self.buckets, tokens)
        return (self.buckets[index], Eager.NONE) if index < len(self.buckets) else (0, Eager.NO_GRAPHS)

    def _chunk(self, remaining: int, share: int) -> int:
        if remaining <= share:
            return remaining
        return 0 if self._runs_whole(remaining) else share

    def _runs_whole(self, remaining: int) -> bool:
        return self.whole and remaining <= self.budget

    def _cut(self, tokens: int, used: int) -> int:
        """Shorten a chunk that does not end its prompt anyway, so that the step lands on a graph bucket."""
        index = bisect_right(self.buckets, used + tokens) - 1
        return self.buckets[index] - used if index >= 0 and self.buckets[index] > used else tokens
