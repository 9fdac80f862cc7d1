"""Lines of "what happened": a decision of scheduler, pool or user in numbers and words."""

from engine.trace.events import Cause
from engine.trace.explain import many, reason_text
from engine.trace.state import State
from engine.trace.views import Happening, label


def event_line(state: State, happening: Happening) -> dict:
    """One entry of ``frame()["events"]``."""
    return {
        "step": happening.step,
        "kind": happening.kind,
        "id": happening.request,
        "label": label(happening.request),
        "text": _event_text(state, happening),
        "need": happening.need,
        "have": happening.have,
        "for": label(happening.other) if happening.kind == "preempt" else "",
        "lost": happening.lost,
        "freed": happening.freed,
    }


def _event_text(state: State, happening: Happening) -> str:
    who, need, have = label(happening.request), happening.need, happening.have
    match happening.kind:
        case "preempt":
            for_whom = f" for {label(happening.other)}" if happening.other >= 0 else ""
            short = f"{many(need, 'block')} needed, {have} available"
            price = f"{many(happening.freed, 'block')} freed, {many(happening.lost, 'token')} to recompute"
            return f"preempted {who}{for_whom}: {short}; {price}"
        case "evict":
            return f"evicted {many(need, 'cached block')}"
        case "swap_out":
            return f"copied {many(need, 'evicted block')} to the host"
        case "swap_in":
            return f"{who} takes {many(need, 'block')} of its {have:,} hits back from the host"
        case "hit":
            return f"{who} found {many(need, 'token')} in the cache ({many(have, 'block')})"
        case "admit":
            return f"admitted {who}"
        case "resume":
            return f"resumed {who}"
        case "finish":
            return f"{who} finished after {many(need, 'token')} ({Cause(have).name.lower()})"
        case "abort":
            return f"{who} ended after {many(need, 'token')} ({Cause(have).name.lower()})"
        case "refuse":
            return f"refused {who}: {reason_text(state, happening.other, need, have)}"
    return "paused" if happening.kind == "pause" else "resumed"
