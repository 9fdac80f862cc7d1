"""The steps of a run with the device's own times, and what they ran in: a fold over STEP, APPLY and TIME."""

from collections.abc import Iterable
from dataclasses import dataclass

from engine.trace.events import Record, Step, Time
from engine.trace.step_facts import StepFacts, StepFold


@dataclass(frozen=True, slots=True)
class TimedStep:
    """One applied step. Seconds; ``busy_s`` is the device's own measure, or the host's where the device has none."""

    facts: StepFacts
    tokens: int  # computed, padding not counted
    bucket: int  # padded tokens of its graph; 0: it ran eagerly
    is_decode: bool  # every row computed one token
    eager_reason: int  # engine.step.Eager
    busy_s: float
    idle_s: float  # of the device, before this step
    host_s: float  # schedule, launch and apply together

    @property
    def padding(self) -> int:
        """Tokens that its graph computed for nobody."""
        return max(0, self.bucket - self.tokens)


def timed_steps(records: Iterable[Record]) -> list[TimedStep]:
    """The steps of one run that were applied and have a TIME record, in launch order."""
    fold, launched, times = StepFold(), {}, {}
    for record in records:
        fold.feed(record)
        if isinstance(record.event, Step):
            launched[record.step] = record.event
        elif isinstance(record.event, Time):
            times[record.event.of_step] = record.event
    return [_timed(facts, launched[facts.step], times[facts.step]) for facts in fold.done if facts.step in times]


def graph_use(steps: Iterable[TimedStep]) -> list[dict]:
    """Hits and padding per graph, smallest first, decode before mixed; ``tokens`` 0 stands for eager steps."""
    found: dict[tuple[str, int], dict] = {}
    for step in steps:
        kind = "decode" if step.is_decode else "mixed"
        empty = {"tokens": step.bucket, "kind": kind, "hits": 0, "padding": 0, "computed": 0}
        entry = found.setdefault((kind, step.bucket), empty)
        entry["hits"] += 1
        entry["padding"] += step.padding
        entry["computed"] += step.tokens
    return [found[key] for key in sorted(found)]


def _timed(facts: StepFacts, step: Step, time: Time) -> TimedStep:
    return TimedStep(
        facts=facts,
        tokens=step.used,
        bucket=step.bucket,
        is_decode=all(tokens == 1 for tokens in step.chunk_tokens),
        eager_reason=step.eager_reason,
        busy_s=time.gpu_us / 1e6 or facts.seconds,
        idle_s=time.idle_us / 1e6,
        host_s=(time.schedule_us + time.launch_us + time.apply_us) / 1e6,
    )
