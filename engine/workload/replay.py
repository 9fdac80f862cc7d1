"""What a recorded run was asked: its configuration, its requests at the lengths they really had, and their answers."""

from collections.abc import Sequence
from dataclasses import dataclass, fields

from engine.config import SchedulingConfig
from engine.trace.answers import answers
from engine.trace.events import Pieces
from engine.trace.timeline import Timeline
from engine.trace.views import RequestView
from engine.workload.items import Item

KNOWN_FACTS = ("device", "model", "versions", "commit", "driver", "backend")


@dataclass(frozen=True, slots=True)
class Asked:
    """The requests of a run as items. ``answers[i]`` are the tokens that item i got; ``left_out`` counts requests that
    were refused or gave no answer; ``unfinished`` those whose answer is taken to get as long as it may."""

    items: list[Item]
    answers: dict[int, list[int]]
    left_out: int
    unfinished: int


def asked(timeline: Timeline) -> Asked:
    """The workload that a run saw, up to its last record. An answer that was cut short is asked for as it was cut."""
    views = [answer.view for answer in answers(timeline)[0]]
    used = [view for view in views if not view.has_ended or view.num_output]
    ended = [view for view in used if view.has_ended]
    items = items_of(used, timeline)
    told = {index: list(view.output_ids) for index, view in enumerate(used)}
    return Asked(items, told, len(views) - len(used), len(used) - len(ended))


def items_of(views: Sequence[RequestView], timeline: Timeline) -> list[Item]:
    """Requests as items. What arrived before the first step arrived together: submitting it took some microseconds."""
    index = timeline.index
    origin, first_step = index.origin_ns, index.start_ns[0] if len(index) else index.origin_ns
    return [
        Item(
            list(view.token_ids[: view.prompt_length]),
            view.max_tokens,
            view.num_output if view.has_ended else view.max_tokens,
            (view.arrived_ns - origin) / 1e9 if view.arrived_ns > first_step else 0.0,
            {"seed": view.seed},
        )
        for view in views
    ]


def scheduling_of(timeline: Timeline) -> SchedulingConfig:
    """The scheduling configuration of a run.

    Raises:
        ValueError: its RUN record has none.
    """
    try:
        known = timeline.info["config"]["scheduling"]
    except KeyError as error:
        raise ValueError("the run does not say how it was configured: it has no RUN record") from error
    values = {name: tuple(value) if isinstance(value, list) else value for name, value in known.items()}
    return SchedulingConfig(
        **{field.name: values[field.name] for field in fields(SchedulingConfig) if field.name in values}
    )


def pieces_of(timeline: Timeline) -> dict[int, bytes]:
    """The text of the token ids that a run showed."""
    found: dict[int, bytes] = {}
    for record in timeline:
        if isinstance(record.event, Pieces):
            start = 0
            for token, length in zip(record.event.token_ids, record.event.lengths):
                found[token] = bytes(record.event.data[start : start + length])
                start += length
    return found


def machine_of(timeline: Timeline) -> dict:
    """The facts of the RUN record about model, device and versions."""
    return {name: timeline.info[name] for name in KNOWN_FACTS if name in timeline.info}
