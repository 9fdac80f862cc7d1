"""The three questions that a page asks about any run, and their answer as plain values."""

import math
from typing import get_args

from engine.config import Capacity, SchedulingConfig
from engine.trace.timeline import Timeline
from engine.workload.counterfactual import Counterfactual, what_if
from engine.workload.replay import scheduling_of

LARGER = 1.1  # of the pool
QUESTIONS = ("pool", "capacity", "victim")
MAX_STEPS = 20_000  # of a run that is asked about: a simulated step costs some tenths of a millisecond


def changes_of(question: str, scheduling: SchedulingConfig) -> dict[str, object]:
    """What a question changes: a pool 10 % larger, the other capacity policy, another victim of preemption.

    Raises ``ValueError`` for a question that is none of ``QUESTIONS``.
    """
    match question:
        case "pool":
            return {"pool_blocks": math.ceil(scheduling.pool_blocks * LARGER)}
        case "capacity":
            return {"capacity": next(one for one in get_args(Capacity) if one != scheduling.capacity)}
        case "victim":
            return {"preemption": "cheapest" if scheduling.preemption != "cheapest" else "lifo"}
    raise ValueError(f"question: one of {', '.join(QUESTIONS)}")


def ask(timeline: Timeline, question: str) -> tuple[Counterfactual, dict]:
    """Simulate both sides of a question; the answer as plain values beside it.

    ``settings`` are [name, before, after]; ``relative`` are the figures after, over those before, less 1 (None where
    there was nothing before).

    Raises:
        ValueError, InvalidRequest, RequestRefused: as of ``what_if``, or the run is longer than ``MAX_STEPS``.
    """
    if timeline.step_count > MAX_STEPS:
        raise ValueError(f"the run has {timeline.step_count:,} steps; questions are answered up to {MAX_STEPS:,}")
    scheduling = scheduling_of(timeline)
    changes = changes_of(question, scheduling)
    found = what_if(timeline, changes)
    before, after = found.summaries["before"], found.summaries["after"]
    settings = [[name, getattr(scheduling, name), value] for name, value in changes.items()]
    relative = {name: after[name] / before[name] - 1 if before[name] else None for name in before}
    return found, found.to_dict() | {"settings": settings, "relative": relative}
