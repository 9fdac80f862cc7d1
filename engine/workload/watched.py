"""A run as its scheduler saw it: before each step who waits, what is free, and afterwards who was admitted and why not
more. Made for reading decisions one at a time, from the records of a real run.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from engine.config import EngineConfig, SchedulingConfig
from engine.loading import load_model
from engine.provenance import device_name
from engine.trace.events import Admit, Cause, Leave, Reason, Record, Step
from engine.trace.recorder import ListSink
from engine.trace.state import State
from engine.workload.drive import Progress, drive, silent
from engine.workload.items import Item


@dataclass(slots=True)
class _Step:
    """What is decided for the step to come."""

    waiting: list[list[int]]  # request, tokens that it must compute
    rows_held: int
    prefilling: list[int]  # tokens that running requests still lack of their prompts
    admitted: list[int] = field(default_factory=list)
    rows: dict[int, int] = field(default_factory=dict)  # of the admitted ones
    preempted: int = 0


def watched(items: Sequence[Item], scheduling: SchedulingConfig, progress: Progress = silent) -> dict:
    """Run ``items`` with the bundled model under ``scheduling``, one step after the other, and read the decisions.

    Returns:
        ``device``, ``block_size``, ``watermark`` (blocks) and ``steps``, each with ``step``, ``waiting`` (``[request,
        tokens to compute]`` in queue order), ``rows_free``, ``decodes``, ``prefilling`` (tokens that admitted requests
        lack of their prompts), ``budget``, ``blocks`` (available to newcomers), ``anything_runs``, ``admitted``,
        ``chunk_tokens`` (of the step), ``preempted``, and of the request left at the head ``head``, ``reason`` (a name
        of ``Reason``), ``need`` and ``have``.
    """
    model = load_model(EngineConfig(scheduling, pool_blocks=scheduling.pool_blocks), (), progress)
    sink = ListSink()
    try:
        drive(model.new_engine({}, (sink,)), items, "stepping", progress)
        name = device_name(model.worker.device)
    finally:
        model.close()
    margin = -(-round(scheduling.watermark * 1e6) * scheduling.pool_blocks // 10**6)
    return {
        "device": name,
        "block_size": scheduling.block_size,
        "watermark": margin,
        "steps": decisions(sink.records),
    }


def decisions(records: Sequence[Record]) -> list[dict]:
    """The decisions of a recorded run, one entry per step (see ``watched``)."""
    state, found = State(), []
    coming: _Step | None = None
    for record in records:
        event = record.event
        if isinstance(event, Admit | Leave | Step) and coming is None:
            coming = _look(state)
        if isinstance(event, Admit):
            coming.admitted.append(event.request)
            coming.rows[event.row] = event.request
        elif isinstance(event, Leave):
            coming.preempted += event.cause == Cause.PREEMPT
            if event.cause != Cause.PREEMPT:
                coming = None  # an answer ended, which is no decision: look again
        elif isinstance(event, Step):
            found.append(_entry(state, coming, event, record.step))
            coming = None
        state.apply(record)
    return found


def _look(state: State) -> _Step:
    running = [state.requests[request] for request in state.running]
    lacking = [max(0, view.num_tokens - view.num_scheduled) for view in running]
    return _Step(
        waiting=[[request, state.requests[request].num_tokens] for request in state.waiting],
        rows_held=len(running),
        prefilling=[tokens for tokens in lacking if tokens > 1],
    )


def _entry(state: State, coming: _Step, event: Step, number: int) -> dict:
    given = sum(row in coming.rows for row in event.block_rows)
    return {
        "step": number,
        "waiting": coming.waiting,
        "rows_free": state.limit("max_num_seqs") - coming.rows_held,
        "decodes": event.used - sum(event.chunk_tokens),
        "prefilling": coming.prefilling,
        "budget": event.budget,
        "blocks": event.free + event.reclaimable + given,
        "anything_runs": coming.rows_held > 0,
        "admitted": coming.admitted,
        "chunk_tokens": list(event.chunk_tokens),
        "preempted": coming.preempted,
        "head": event.head,
        "reason": Reason(event.head_reason).name.lower(),
        "need": event.head_need,
        "have": event.head_have,
    }


def admitted_by_rule(step: dict, block_size: int, watermark: int) -> list[int]:
    """Who enters by the rule of first come, first served under MAX_UTILIZATION with chunked prefill: the head of the
    queue, again and again, while a row is free, the budget has a token left, and all its blocks fit above the
    watermark. Nobody in a step that preempted."""
    if step["preempted"]:
        return []
    rows, blocks, runs = step["rows_free"], step["blocks"], step["anything_runs"]
    tokens = step["budget"] - step["decodes"] - sum(step["prefilling"])
    entered: list[int] = []
    for request, length in step["waiting"]:
        need = -(-length // block_size)
        if not rows or tokens < 1 or need + (watermark if runs else 0) > blocks:
            break
        entered.append(request)
        rows, blocks, tokens, runs = rows - 1, blocks - need, tokens - length, True
    return entered
