"""Self-checks of a run: sums that must agree if the trace is right and the run is fit to draw conclusions from."""

from dataclasses import dataclass

from engine.trace import views
from engine.trace.answers import Answer, answers, duration_s
from engine.trace.events import Arrive, Cause, Leave, Refuse, Step
from engine.trace.state import State
from engine.trace.timeline import Timeline

ENOUGH_FOR_P99 = 300  # fewer samples: a p99 is one or two requests
LITTLE_TOLERANCE = 0.05


@dataclass(frozen=True, slots=True)
class Check:
    """``left`` and ``right`` should agree (``ok`` None: nothing to check in this run); ``text`` says what they are."""

    id: str
    ok: bool | None
    left: float
    right: float
    text: str


def checks(timeline: Timeline) -> list[Check]:
    """Every self-check of a run that the trace alone can answer."""
    timeline = timeline.frozen()  # a live run goes on while it is checked
    found, totals = answers(timeline)
    end = timeline.state_at(timeline.last_seq)
    return [
        _complete(timeline),
        _blocks(timeline),
        _tokens(found),
        _row_steps(timeline, totals, end),
        _phases(found),
        _little(timeline, found),
        _samples(found),
    ]


def _complete(timeline: Timeline) -> Check:
    text = "records missing from the trace = 0"
    return Check("complete", timeline.holes == 0, timeline.holes, 0, text)


def _blocks(timeline: Timeline) -> Check:
    """The pool as the scheduler counted it at each step against the pool as the fold has it."""
    wrong, steps = 0, 0
    for state, record in timeline.walk():
        if isinstance(record.event, Step) and state.pool.size:
            event = record.event
            # The STEP's own counts hold after its allocations; taken blocks were available before.
            steps += 1
            wrong += event.free + event.reclaimable + len(event.block_ids) != state.pool.available
    text = "steps in which used + cached + free blocks differ from the pool = 0"
    return Check("blocks", wrong == 0 if steps else None, wrong, 0, text)


def _tokens(found: list[Answer]) -> Check:
    done = [answer.view for answer in found if answer.completed]
    computed = sum(view.cached_total + view.computed_total - view.lost_tokens for view in done)
    required = sum(view.num_scheduled for view in done)
    text = "tokens reused + computed - lost to preemption = tokens of the answers"
    return Check("tokens", computed == required if done else None, computed, required, text)


def _row_steps(timeline: Timeline, totals: views.Totals, end: State) -> Check:
    counted = totals.decode + totals.prefill + totals.padded + totals.late + totals.idle
    there = timeline.step_count * end.limit("max_num_seqs")
    text = "useful + padded + late + idle row-steps = rows x steps"
    return Check("row_steps", counted == there if there else None, counted, there, text)


def _phases(found: list[Answer]) -> Check:
    done = [answer for answer in found if answer.completed]
    parts = sum(answer.ttft_ms + sum(answer.gaps_ms) for answer in done)
    whole = sum(answer.e2el_ms for answer in done)
    ok = abs(parts - whole) <= 1e-6 * whole if done else None
    return Check("phases", ok, parts, whole, "time to first token + all gaps = arrival to last token (ms, summed)")


def _little(timeline: Timeline, found: list[Answer]) -> Check:
    """Requests in the system (integrated over time) against arrival rate x time in the system."""
    done = [answer.view for answer in found if answer.view.ended_ns >= 0]
    seconds = duration_s(timeline)
    text = "mean requests in the system = requests per second x mean seconds in it (within 5 %)"
    if not done or not seconds or len(done) < len(found):
        return Check("little", None, 0.0, 0.0, text + "; needs a run whose requests have all ended")
    inside = _request_seconds(timeline) / seconds
    rate, stay = len(done) / seconds, sum(view.ended_ns - view.arrived_ns for view in done) / len(done) / 1e9
    return Check("little", abs(inside - rate * stay) <= LITTLE_TOLERANCE * inside, inside, rate * stay, text)


def _request_seconds(timeline: Timeline) -> float:
    total, inside, before = 0, 0, 0
    for state, record in timeline.walk():
        total += inside * (record.t_ns - before)
        before = record.t_ns
        event = record.event
        if isinstance(event, Arrive):
            inside += 1
        elif isinstance(event, Refuse):
            inside -= 1
        elif isinstance(event, Leave) and event.cause != Cause.PREEMPT:
            inside -= not state.requests[event.request].has_ended
    return total / 1e9


def _samples(found: list[Answer]) -> Check:
    done = sum(1 for answer in found if answer.completed)
    text = f"completed requests, at least {ENOUGH_FOR_P99} for a p99"
    return Check("samples", True if done >= ENOUGH_FOR_P99 else None, done, ENOUGH_FOR_P99, text)
