"""Why a request stands where it stands, in words with numbers. Computed from the state alone."""

import math

from engine.trace import views
from engine.trace.events import Cause, Reason
from engine.trace.state import State
from engine.trace.views import RequestView, label

_SENTENCES = {
    Reason.NONE: "may enter with the next step",
    Reason.PREEMPTED_THIS_STEP: "nobody is admitted in a step that preempted",
    Reason.DRAINING: "the engine is draining",
}
_CAUSES = {
    Cause.LENGTH: "it reached its length",
    Cause.EOS: "end of sequence",
    Cause.STOP: "a stop string or stop token",
    Cause.ABORT: "aborted",
    Cause.ERROR: "an error",
}


def many(count: int, word: str) -> str:
    """``1 block``, ``5 blocks``."""
    return f"{count:,} {word}" if count == 1 else f"{count:,} {word}s"


def reason_text(state: State, reason: int, need: int, have: int) -> str:
    """A reason in words, e.g. ``needs 5 blocks, 2 are available (watermark 1)``."""
    match reason:
        case Reason.NO_FREE_BLOCKS:
            margin = watermark_blocks(state)
            words = f"needs {many(need, 'block')}, {have:,} {_are(have)} available"
            return f"{words} (watermark {margin})" if margin else words
        case Reason.WATERMARK:
            return f"needs {many(need, 'block')} with the watermark, {have:,} {_are(have)} available"
        case Reason.PRIORITY:
            kept = "with one for the next step of each running request that comes before it"
            return f"needs {many(need, 'block')} {kept}, {have:,} {_are(have)} available"
        case Reason.WAITING_FOR_PREFIX:
            return f"{label(have)} is computing {many(need, 'token')} that it shares"
        case Reason.RESERVED_FOR_RUNNING:
            return f"needs {many(need, 'block')}, {have:,} {_are(have)} not promised to running requests"
        case Reason.MAX_NUM_SEQS:
            return f"needs a row, all {have} are taken"
        case Reason.TOKEN_BUDGET:
            return f"needs {many(need, 'token')}, {have:,} {_are(have)} left of the budget"
        case Reason.GATE_CLOSED:
            return _gate_text(need, have)
        case Reason.RESULT_PENDING:
            return f"{many(need, 'row')} waited for a result, {many(have, 'step')} in flight must be applied first"
        case Reason.TOO_LONG:
            return f"needs {many(need, 'token')} of context, {have:,} at most"
        case Reason.NEVER_FITS:
            return f"needs {many(need, 'block')}, the pool has {have:,}"
    return _SENTENCES.get(reason, "waits")


def explain(state: State, request: int) -> str:
    """One sentence on where a request stands and why."""
    view = state.requests.get(request)
    if view is None:
        return "This request is not known at this step."
    if view.state in (views.WAITING, views.PREEMPTED):
        return _explain_waiting(state, view)
    if view.state == views.RUNNING:
        return _explain_running(state, view)
    if view.state == views.REFUSED:
        return "Refused on arrival: it could never run."
    padded = " Its row goes on until the group has finished." if view.row >= 0 else ""
    return f"Ended after {many(view.num_output, 'token')}: {_CAUSES.get(view.cause, 'ended')}.{padded}"


def watermark_blocks(state: State) -> int:
    """Blocks kept free when admitting: 0 when nothing runs."""
    return math.ceil(state.limit("watermark") * state.pool.size) if state.running else 0


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


def _gate_text(need: int, have: int) -> str:
    if need > 0:
        return f"the gate is closed for {need / 1000:.1f} ms more, {many(have, 'request')} collected"
    return f"the gate is closed until {many(have, 'row')} of the batch {'is' if have == 1 else 'are'} given back"


def _explain_waiting(state: State, view: RequestView) -> str:
    head, reason, need, have = state.head
    start = "Not resumed" if view.state == views.PREEMPTED else "Not admitted"
    if view.id == head and reason != Reason.NONE:
        return f"{start}: {reason_text(state, reason, need, have)}."
    if state.waiting[0] == view.id:
        return "First in the queue: it may enter with the next step."
    place = state.waiting.index(view.id)
    came_later = sum(state.requests[other].arrived_ns > view.arrived_ns for other in state.waiting[:place])
    passed = f"; {came_later} of them came later" if came_later else ""
    return f"{start}: {place} ahead of it in the queue, {label(state.waiting[0])} is first{passed}."


def _explain_running(state: State, view: RequestView) -> str:
    step = state.step
    row = f"row {view.row}"
    for chunk in step.chunks:
        if chunk.request == view.id:
            last = chunk.start + chunk.tokens - 1
            prefill = f"Prefill in {row}: tokens {chunk.start} to {last} of {view.num_tokens} in this step."
            return f"{prefill} {many(view.num_swapped, 'block')} came from the host." if view.num_swapped else prefill
    if (view.row, view.id) in step.sat_out:
        return f"Sits this step out in {row}: it needs a block, and results in flight may free one."
    if view.row in state.decode_rows:
        done = f"{view.num_output} of at most {many(view.max_tokens, 'token')}"
        return f"Decodes in {row}: {done}, {many(len(view.blocks), 'block')}."
    if view.num_computed < view.num_tokens - 1:
        return f"In {row}, no tokens of it in this step: {view.num_computed} of {view.num_tokens} computed."
    return f"In {row}, prefilled: it decodes from the next step on."
