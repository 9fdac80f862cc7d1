"""What the steps of a run decided, without its clock, and where two runs of the same requests part."""

from typing import NamedTuple

from engine.trace.events import Admit, Cause, Leave, Step
from engine.trace.timeline import Timeline


class Difference(NamedTuple):
    """The first step that two schedules do not share: its number, and what each of them did (None: it had ended).

    A side is a dict of request ids: ``admitted``, ``preempted``, ``decodes``, and ``chunks`` as [request, start,
    tokens].
    """

    step: int
    before: dict | None
    after: dict | None


def first_difference(before: Timeline, after: Timeline) -> Difference | None:
    """Where two schedules of the same requests part; None when they are the same to the end."""
    left, right = schedule(before), schedule(after)
    for number, (one, other) in enumerate(zip(left, right), start=1):
        if one != other:
            return Difference(number, one, other)
    common = min(len(left), len(right))
    if len(left) == len(right):
        return None
    return Difference(common + 1, *((one[common] if common < len(one) else None) for one in (left, right)))


def schedule(timeline: Timeline) -> list[dict]:
    """What each step decided, by request: a run without its clock. Rows and block ids are left out: they are names."""
    steps, rows, decoding = [], {}, set()
    admitted, preempted = [], []
    for record in timeline:
        event = record.event
        if isinstance(event, Admit):
            rows[event.row] = event.request
            admitted.append(event.request)
        elif isinstance(event, Leave):
            preempted += [event.request] if event.cause == Cause.PREEMPT else []
            if not event.keeps_row:
                decoding.discard(event.row)
        elif isinstance(event, Step):
            decoding |= set(event.joined)
            steps.append(_decided(event, rows, decoding, admitted, preempted))
            admitted, preempted = [], []
    return steps


def _decided(event: Step, rows: dict[int, int], decoding: set[int], admitted: list[int], preempted: list[int]) -> dict:
    chunks = zip(event.chunk_rows, event.chunk_starts, event.chunk_tokens)
    return {
        "admitted": admitted,
        "preempted": preempted,
        "decodes": sorted(rows[row] for row in decoding.difference(event.sat_out)),
        "chunks": [[rows[row], start, tokens] for row, start, tokens in chunks],
    }
