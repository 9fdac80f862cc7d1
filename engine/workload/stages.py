"""From eager transformers to this engine, one technique at a time: the same requests, each stage on top of the last.

    transformers -> fused kernels -> in-flight batching -> CUDA graphs -> one step in flight -> int8 KV

A stage names what it adds; its tokens/s stand beside how well its answers survive being recomputed with the plain
references (``engine.workload.check``): speed that costs accuracy must show it. The 8-bit pool is another model load,
judged against a pool of the model's own dtype (``engine.workload.kv_accuracy``).
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from engine.workload.check import Logits, check, drawn
from engine.workload.drive import FAIR, MakeEngine, Outcome, Progress, drive, silent
from engine.workload.items import Item
from engine.workload.kv_accuracy import KVLogits, kv_accuracy

FORMULAS: dict[str, str] = {
    "output_throughput": "tokens of all answers / first submit to last token, the faster of two passes",
    "times_before": "tokens/s over those of the stage before",
    "times_first": "tokens/s over those of the first stage",
    "agreed": "share of checked tokens that the plain references choose too, given the same tokens before them; "
    "of int8 KV: share of places where the best token is that of a pool in the model's own dtype",
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
EIGHT_BIT = Stage("int8 KV", "in-flight", 1, True)  # of a model that was loaded with such a pool


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
        entries.append(_entry(stage, outcome, found["agreed"] / found["tokens"], found["kl"]))
    return entries


def eight_bit_stage(
    make_engine: MakeEngine, items: Sequence[Item], logits: KVLogits, progress: Progress = silent
) -> dict:
    """The entry of the last stage, on a model whose pool is int8."""
    outcome = _fastest(make_engine, EIGHT_BIT, items, progress)
    texts = [(items[index].prompt_ids, outcome.outputs[index]) for index in drawn(len(items), CHECKED)]
    found = kv_accuracy(texts, logits, progress)
    return _entry(EIGHT_BIT, outcome, found["greedy_agreement"], found["kl"])


def beside(entries: Sequence[dict]) -> list[dict]:
    """``entries`` with the ratio of each to the one before and to the first."""
    rates = [entry["output_throughput"] for entry in entries]
    return [
        entry | {"times_before": rate / before, "times_first": rate / rates[0]}
        for entry, rate, before in zip(entries, rates, [rates[0], *rates], strict=False)
    ]


def _entry(stage: Stage, outcome: Outcome, agreed: float, kl: float) -> dict:
    return {
        "stage": stage.name,
        "output_throughput": outcome.tokens / outcome.seconds,
        "agreed": agreed,
        "kl": kl,
    }


def _fastest(make_engine: MakeEngine, stage: Stage, items: Sequence[Item], progress: Progress) -> Outcome:
    overrides = FAIR | {"batching": stage.batching, "steps_in_flight": stage.steps_in_flight}
    passes = [drive(make_engine(overrides, ()), items, stage.name, progress) for _ in range(PASSES)]
    return min(passes, key=lambda outcome: outcome.seconds)
