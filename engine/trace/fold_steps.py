"""How a STEP and its APPLY change a ``State``: rows advance, blocks are taken, tokens arrive, row-steps are counted."""

from typing import TYPE_CHECKING

from engine.trace.events import Apply, Step
from engine.trace.views import Chunk, RequestView, RowKind, StepBar, StepView

if TYPE_CHECKING:
    from engine.trace.state import State


def on_step(state: "State", event: Step) -> None:
    """Rows advance, blocks are taken and become addressable."""
    step = StepView(state.step.number + 1, state.t_ns, event.budget, event.used, event.bucket, event.eager_reason)
    step.happened, state.pending = state.pending, []
    state.step = step
    state.pool.now = step.number
    state.head = (event.head, event.head_reason, event.head_need, event.head_have)
    state.decode_rows.update(dict.fromkeys(event.joined))
    _run_decodes(state, step, set(event.sat_out))
    _run_chunks(state, step, event)
    state.in_flight[step.number] = (state.t_ns, step.ran)
    for row, block in zip(event.block_rows, event.block_ids):
        request = state.rows[row]
        blocks = state.own(request).blocks
        state.pool.take(block, request, len(blocks))
        blocks.append(block)
    for block in event.hashed:
        state.pool.hashed[block] = 1
    _count(state, step)


def _run_decodes(state: "State", step: StepView, sat_out: set[int]) -> None:
    own, rows, ran = state.own, state.rows, step.ran
    for row in state.decode_rows:
        request = rows[row]
        if row in sat_out:
            step.sat_out.append((row, request))
            continue
        view = own(request)
        view.num_scheduled = end = view.num_scheduled + 1
        view.computed_total += 1
        ran[row] = (request, view.epoch, end, RowKind.PADDED if view.has_ended else RowKind.DECODE)


def _run_chunks(state: "State", step: StepView, event: Step) -> None:
    lists = event.chunk_rows, event.chunk_starts, event.chunk_tokens, event.chunk_lasts
    for row, start, tokens, last in zip(*lists):
        view = state.own(state.rows[row])
        end = view.num_scheduled = start + tokens
        again = max(0, min(end, view.computed_peak) - start)
        view.computed_total += tokens
        view.recomputed += again
        state.totals.recomputed_tokens += again
        state.totals.prefill_tokens += tokens - again
        step.chunks.append(Chunk(row, view.id, start, tokens, bool(last)))
        step.ran[row] = (view.id, view.epoch, end, RowKind.PREFILL)


def _count(state: "State", step: StepView) -> None:
    totals = state.totals
    decode, prefill, padded = (step.rows_that(kind) for kind in RowKind)
    totals.decode += decode
    totals.prefill += prefill
    totals.padded += padded
    totals.idle += max(0, state.limit("max_num_seqs") - decode - prefill - padded)
    chunk_tokens = sum(chunk.tokens for chunk in step.chunks)
    preemptions = sum(1 for happening in step.happened if happening.kind == "preempt")
    state.history.append(StepBar(step.number, decode, chunk_tokens, padded, preemptions, 0.0, *state.head))


def on_apply(state: "State", event: Apply) -> None:
    """KV of the step exists now; its tokens reach their requests."""
    started, computes = state.in_flight.pop(event.of_step, (state.t_ns, {}))
    requests, own = state.requests, state.own
    for request, epoch, end in state.fetching.pop(event.of_step, ()):
        if request in requests and requests[request].epoch == epoch:
            own(request).num_computed = end
    for request, epoch, end, _ in computes.values():
        if request in requests and requests[request].epoch == epoch:
            own(request).num_computed = end
    for row, token in zip(event.rows, event.token_ids):
        _add_token(own(computes[row][0]), token, state.t_ns)
    state.totals.output_tokens += len(event.token_ids)
    for row in event.dropped:
        _count_late(state, computes[row][3] if row in computes else RowKind.PADDED)
    _time_bar(state, event.of_step, (state.t_ns - max(started, state.last_apply_ns)) / 1e6)
    state.last_apply_ns = state.t_ns


def _add_token(view: RequestView, token: int, t_ns: int) -> None:
    if view.num_tokens == len(view.token_ids):
        view.token_ids.append(token)
    view.num_tokens += 1
    view.last_token_ns = t_ns
    if view.first_token_ns < 0:
        view.first_token_ns = t_ns


def _count_late(state: "State", ran_as: int) -> None:
    if ran_as == RowKind.PADDED:
        return
    state.totals.late += 1
    if ran_as == RowKind.DECODE:
        state.totals.decode -= 1
    else:
        state.totals.prefill -= 1


def _time_bar(state: "State", step: int, ms: float) -> None:
    place = len(state.history) - 1 - (state.step.number - step)
    if place >= 0:
        state.history[place] = state.history[place]._replace(ms=ms)
