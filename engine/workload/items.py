"""A workload: what is asked of the engine, and when.

An item holds both the declared ``max_tokens`` (all that the scheduler sees) and the forced output length, so that every
scheduler does exactly the same work whatever it samples.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from engine.request import SamplingParams


@dataclass(frozen=True, slots=True)
class Item:
    """One request to come: ``arrival_s`` seconds after the run starts, answered with exactly
    ``forced_output_length`` tokens (None: until it ends by itself)."""

    prompt_ids: list[int]
    max_tokens: int
    forced_output_length: int | None = None
    arrival_s: float = 0.0
    params: Mapping[str, object] = field(default_factory=dict)  # overrides of SamplingParams; greedy otherwise

    def sampling(self) -> SamplingParams:
        """The sampling parameters to submit with: greedy, end of sequence ignored when the length is forced."""
        forced = self.forced_output_length
        base = {"temperature": 0.0, "seed": 0, "ignore_eos": forced is not None}
        return SamplingParams(max_tokens=self.max_tokens, forced_output_length=forced, **(base | dict(self.params)))

    @property
    def output_length(self) -> int:
        """Tokens that the answer will have, or at most has."""
        return self.max_tokens if self.forced_output_length is None else self.forced_output_length


@dataclass(frozen=True, slots=True)
class Workload:
    """Named items and where they come from. ``notes`` says what was changed to make them fit."""

    name: str
    items: list[Item]
    seed: int
    notes: tuple[str, ...] = ()

    @property
    def longest(self) -> int:
        """Tokens of the longest item, prompt and declared output."""
        return max(len(item.prompt_ids) + item.max_tokens for item in self.items)

    @property
    def starts_at_once(self) -> bool:
        """True when everything is asked at t=0."""
        return all(item.arrival_s == 0 for item in self.items)

    def describe(self) -> dict:
        """Plain values for ``meta``: counts, totals and quantiles of the lengths."""
        prompts = [len(item.prompt_ids) for item in self.items]
        outputs = [item.output_length for item in self.items]
        return {
            "name": self.name,
            "seed": self.seed,
            "requests": len(self.items),
            "input_tokens": sum(prompts),
            "output_tokens": sum(outputs),
            "input_lengths": quantiles(prompts),
            "output_lengths": quantiles(outputs),
            "notes": list(self.notes),
        }


def quantiles(values: Sequence[float]) -> dict[str, float]:
    """Minimum, p50, p90, p99, maximum (nearest rank) and mean of ``values``."""
    ranked = sorted(values)
    pick = {name: ranked[min(len(ranked) - 1, int(p * len(ranked)))] for name, p in _RANKS.items()}
    return pick | {"max": ranked[-1], "mean": sum(ranked) / len(ranked)}


def fit(workload: Workload, max_model_len: int, vocab_size: int) -> Workload:
    """The workload cut to a model: token ids folded into the vocabulary, prompts cut to leave room for the output.

    Every change is counted in ``notes``: a benchmark on cut prompts is another benchmark.
    """
    folded = sum(any(token >= vocab_size for token in item.prompt_ids) for item in workload.items)
    cut = sum(len(item.prompt_ids) + item.max_tokens > max_model_len for item in workload.items)
    if not folded and not cut:
        return workload
    notes = [f"{folded} prompts had token ids folded into a vocabulary of {vocab_size}"] if folded else []
    notes += [f"{cut} requests were cut to {max_model_len} tokens"] if cut else []
    items = [_fit_item(item, max_model_len, vocab_size) for item in workload.items]
    return Workload(workload.name, items, workload.seed, (*workload.notes, *notes))


def work_done(items: Sequence[Item], outputs: Sequence[Sequence[int]]) -> Counter:
    """The multiset of (prompt length, produced tokens): equal for two runs that did the same work."""
    return Counter((len(item.prompt_ids), len(output)) for item, output in zip(items, outputs, strict=True))


_RANKS = {"min": 0.0, "p50": 0.5, "p90": 0.9, "p99": 0.99}


def _fit_item(item: Item, max_model_len: int, vocab_size: int) -> Item:
    max_tokens = min(item.max_tokens, max_model_len - 1)
    prompt = [token % vocab_size for token in item.prompt_ids[: max_model_len - max_tokens]]
    forced = None if item.forced_output_length is None else min(item.forced_output_length, max_tokens)
    return Item(prompt, max_tokens, forced, item.arrival_s, item.params)
