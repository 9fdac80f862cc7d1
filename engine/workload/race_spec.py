"""A race as somebody asks for it (command line, Arena), and how it is run on a loaded model."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from engine.errors import InvalidRequest
from engine.loading import LoadedModel
from engine.trace.recorder import Sink
from engine.workload import lengths
from engine.workload.arrivals import paced
from engine.workload.drive import Progress, silent
from engine.workload.items import Item, Workload, fit
from engine.workload.race import SCHEDULERS, race


@dataclass(frozen=True, slots=True)
class RaceSpec:
    """What to race. ``arrival_rate`` requests per second (Poisson); None: all at t=0."""

    requests: int = 64
    rows: int = 8
    spread: float = 1.0
    seed: int = 0
    repeats: int = 3
    arrival_rate: float | None = None
    schedulers: tuple[str, ...] = tuple(SCHEDULERS)

    def validate(self) -> "RaceSpec":
        """Return self, or raise ``InvalidRequest`` for the first field out of range."""
        for name in ("requests", "rows", "repeats"):
            _check(name, getattr(self, name), getattr(self, name) >= 1, "a whole number of at least 1")
        _check("length_spread", self.spread, 0 <= self.spread <= 1, "0 to 1")
        _check("arrival_rate", self.arrival_rate, self.arrival_rate is None or self.arrival_rate > 0, "more than 0")
        known = set(self.schedulers) <= SCHEDULERS.keys()
        _check("schedulers", self.schedulers, known, f"some of {', '.join(SCHEDULERS)}")
        return self

    def workload(self, vocab_size: int) -> Workload:
        """The items, a pure function of the spec."""
        drawn = lengths.race(self.requests, self.spread, self.seed, vocab_size)
        if self.arrival_rate is None:
            return drawn
        return paced(drawn, self.arrival_rate, 1.0)


def run_race(loaded: LoadedModel, spec: RaceSpec, progress: Progress = silent, sinks: Sequence[Sink] = ()) -> dict:
    """Race on a loaded model: results as ``race`` gives them.

    The pool is made large enough that KV never decides, and a step holds the prompts of a whole group: only batching
    differs.
    The caller starts its next engine anew afterwards (``loaded.new_engine``), which restores its own pool.
    """
    workload, sizes = prepared(loaded, spec)
    return race(
        lambda overrides, more: loaded.new_engine(sizes | overrides, more),
        workload.items,
        spec.schedulers,
        progress,
        spec.repeats,
        sinks,
    )


def prepared(loaded: LoadedModel, spec: RaceSpec) -> tuple[Workload, dict[str, object]]:
    """The workload of a race cut to a loaded model, and what all its runs override of ``SchedulingConfig``."""
    scheduling, vocab_size = loaded.config.scheduling, loaded.limits.vocab_size
    workload = fit(spec.validate().workload(vocab_size), scheduling.max_model_len, vocab_size)
    return workload, {
        "max_num_seqs": spec.rows,
        "pool_blocks": blocks_for(workload.items, spec.rows, scheduling.block_size),
        "token_budget": spec.rows * lengths.PROMPTS[1],
        "capacity": "max-utilization",
    }


def blocks_for(items: Sequence[Item], rows: int, block_size: int) -> int:
    """Blocks with which ``rows`` of the longest items fit beside the watermark."""
    longest = max(math.ceil((len(item.prompt_ids) + item.max_tokens) / block_size) for item in items)
    return math.ceil(rows * longest * 1.02) + 1


def _check(name: str, value: object, ok: bool, allowed: str) -> None:
    if not ok:
        raise InvalidRequest(name, allowed, value)
