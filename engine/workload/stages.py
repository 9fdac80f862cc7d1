"""From eager transformers to this engine, one technique at a time: the same requests, each stage on top of the last.

    transformers -> fused kernels -> in-flight batching -> CUDA graphs -> one step in flight

A stage names what it adds; its tokens/s stand beside how well its answers survive being recomputed with the plain
references (``engine.workload.check``): speed that costs accuracy must show it.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from engine.workload.check import Logits, check
from engine.workload.drive import FAIR, MakeEngine, Outcome, Progress, drive, silent
from engine.workload.items import Item

FORMULAS: dict[str, str] = {
    "output_throughput": "tokens of all answers / first submit to last token, the faster of two passes",
    "times_before": "tokens/s over those of the stage before",
    "times_first": "tokens/s over those of the first stage",
    "agreed": "share of checked tokens that the plain references choose too, given the same tokens before them",
    "kl": "mean divergence of the two distributions, in nats",
}
CHECKED = 2  # answers recomputed per stage
PASSES = 2


@dataclass(frozen=True, slots=True)
class Stage:
    """What a stage adds, as fields of ``SchedulingConfig`` and whether steps run in CUDA graphs."""

    name: str
    batching: str
    steps_in_flight: int
    graphs: bool


STAGES = (
    Stage("fused kernels", "static", 0, False),
    Stage("in-flight batching", "in-flight", 0, False),
    Stage("CUDA graphs", "in-flight", 0, True),
    Stage("one step in flight", "in-flight", 1, True),
)


def stages(
    make_engine: MakeEngine,
    items: Sequence[Item],
    logits: Logits,
    eagerly: Callable[[], AbstractContextManager] | None,
    progress: Progress = silent,
) -> list[dict]:
    """One entry per stage that this device can run, slowest first.

    Args:
        eagerly: a context in which no step uses a graph; None: the device has none, and that stage is left out.
    """
    entries = []
    for stage in STAGES:
        if stage.graphs and eagerly is None and stage.steps_in_flight == 0:
            continue
        with nullcontext() if stage.graphs or eagerly is None else eagerly():
            outcome = _fastest(make_engine, stage, items, progress)
        found = check(items, outcome.outputs, logits, CHECKED, progress)
        entries.append(
            {
                "stage": stage.name,
                "output_throughput": outcome.tokens / outcome.seconds,
                "agreed": found["agreed"] / found["tokens"],
                "kl": found["kl"],
            }
        )
    return entries


def beside(entries: Sequence[dict]) -> list[dict]:
    """``entries`` with the ratio of each to the one before and to the first."""
    rates = [entry["output_throughput"] for entry in entries]
    return [
        entry | {"times_before": rate / before, "times_first": rate / rates[0]}
        for entry, rate, before in zip(entries, rates, [rates[0], *rates], strict=False)
    ]


def _fastest(make_engine: MakeEngine, stage: Stage, items: Sequence[Item], progress: Progress) -> Outcome:
    overrides = FAIR | {"batching": stage.batching, "steps_in_flight": stage.steps_in_flight}
    passes = [drive(make_engine(overrides, ()), items, stage.name, progress) for _ in range(PASSES)]
    return min(passes, key=lambda outcome: outcome.seconds)
