"""Paged KV on real runs: who holds which block, three allocators on the same arrivals, and what a block size costs."""

from collections.abc import Sequence

import numpy as np

from engine.config import SchedulingConfig
from engine.loading import LoadedModel
from engine.provenance import device_name
from engine.trace.allocator_replay import Served, compare
from engine.trace.recorder import ListSink
from engine.trace.state import State
from engine.trace.timed_steps import timed_steps
from engine.trace.timeline import Timeline, split_runs
from engine.trace.views import label
from engine.workload.bench import shorten
from engine.workload.classroom import LOADING, after_steps, chats, drive_in_steps, final_tokens, small_model
from engine.workload.drive import FAIR, Progress, drive, silent
from engine.workload.items import Item

BLOCK = 16
EVERY = 2  # steps from one arrival to the next
PROMPTS, MEAN, OUTPUTS = (16, 96), 64, (8, 200)  # of the arrivals that three allocators serve
LONG_PROMPTS, LONG_MEAN, LONG_OUTPUTS = (16, 272), 96, (8, 240)  # of the block sizes: several blocks of any size
LONGEST = LONG_PROMPTS[1] + LONG_OUTPUTS[1]
SIZES = (8, 16, 32, 64, 128, 256)
LAPS = 2  # timed runs of each block size; the calmer one counts


def three_allocators(
    random_weights: str | None,
    requests: int,
    pool_blocks: int,
    max_model_len: int,
    seed: int,
    progress: Progress = silent,
) -> dict:
    """One run of the engine whose arrivals are then served by all three allocators on the same pool.

    Returns:
        ``device``; ``model`` and ``pool`` (bytes, slots, sizes); ``allocators`` (see ``_described``), ``engine`` (rows
        running while others wait, of the real run), ``lengths`` (prompt and output tokens in order of arrival),
        ``held`` (slots that a running request holds, mean over all steps, by the lengths alone) and ``grid``.
    """
    rows = min(requests, pool_blocks)
    scheduling = SchedulingConfig(
        max_num_seqs=rows, token_budget=max(256, rows), max_model_len=max_model_len, prefix_cache=False
    )
    with small_model(random_weights, scheduling, pool_blocks, progress) as model:
        items = chats(requests, seed, model.limits.vocab_size, PROMPTS, MEAN, OUTPUTS)
        sink = ListSink()
        engine = model.new_engine(FAIR, (sink,))
        drive_in_steps(engine, items, EVERY, lambda what, done: progress(what, LOADING + (1 - LOADING) * done))
        facts = {"device": device_name(model.worker.device), "model": _model(model), "pool": _pool(model)}
    (timeline,) = split_runs(sink.records)
    return facts | {
        "allocators": [_described(served) for served in compare(timeline)],
        "engine": _engine(timeline),
        "lengths": [[len(item.prompt_ids), item.output_length] for item in items],
        "held": held_slots(items, BLOCK),
        "grid": grid(_fullest(timeline)),
    }


def held_slots(items: Sequence[Item], block_size: int) -> float:
    """Slots that a running request holds, mean over its steps: long answers run longer, so they count for more."""
    tokens = np.concatenate([np.arange(len(item.prompt_ids), final_tokens(item) + 1) for item in items])
    return float(np.mean(-(-tokens // block_size) * block_size))


def grid(state: State) -> dict:
    """The pool at one place of a run: ``blocks`` (owner, place in its table, tokens in it; None when free) for block 1
    and on, ``tables`` and ``tokens`` of the requests by letter, ``waiting`` and ``step``."""
    size, blocks = state.block_size, [None] * state.pool.size
    tables, tokens = {}, {}
    for request in state.running:
        view, name = state.requests[request], label(request)
        tables[name], tokens[name] = list(view.blocks), view.num_computed
        for place, block in enumerate(view.blocks):
            blocks[block - 1] = [name, place, max(0, min(size, view.num_computed - place * size))]
    return {
        "step": state.step.number,
        "block_size": size,
        "blocks": blocks,
        "tables": tables,
        "tokens": tokens,
        "waiting": len(state.waiting),
    }


def block_sizes(
    random_weights: str | None, sizes: Sequence[int], requests: int, seed: int, progress: Progress = silent
) -> dict:
    """The same requests with each block size on a pool that is large enough, so that every run takes the same steps.

    Returns:
        ``device``, ``rows`` and ``entries``: ``block_size``, ``waste`` (slots of a running request that hold no token,
        mean over all steps), ``held`` (all its slots), ``ms_per_step`` (median of the steps that only decode, in the
        calmer lap) and ``laps_ms``.
    """
    rows = 8
    scheduling = SchedulingConfig(
        max_num_seqs=rows, token_budget=512, max_model_len=LONGEST, block_size=sizes[0], prefix_cache=False
    )
    with small_model(random_weights, scheduling, _room(rows, sizes[0]), progress) as model:
        items = chats(requests, seed, model.limits.vocab_size, LONG_PROMPTS, LONG_MEAN, LONG_OUTPUTS)
        entries = []
        for place, size in enumerate(sizes):

            def share(what: str, done: float, place: int = place) -> None:
                progress(what, LOADING + (1 - LOADING) * (place + done) / len(sizes))

            entries.append(_one_size(model, items, size, rows, share))
        return {"device": device_name(model.worker.device), "rows": rows, "entries": entries}


def waste_of(timeline: Timeline) -> tuple[float, float]:
    """Empty slots of a running request and all its slots, mean over the steps of all running requests."""
    empty = slots = count = 0
    for state in after_steps(timeline):
        held = [state.requests[request] for request in state.running]
        slots += sum(len(view.blocks) for view in held) * state.block_size
        empty += sum(len(view.blocks) * state.block_size - view.num_scheduled for view in held)
        count += len(held)
    return empty / max(1, count), slots / max(1, count)


def _one_size(model: LoadedModel, items: Sequence[Item], size: int, rows: int, progress: Progress) -> dict:
    overrides = FAIR | {"block_size": size, "pool_blocks": _room(rows, size)}
    drive(model.new_engine(overrides), [shorten(item) for item in items[:rows]], f"blocks of {size}", silent)
    laps = []
    for lap in range(LAPS):
        sink = ListSink()
        what = f"blocks of {size}"
        drive(
            model.new_engine(overrides, (sink,)), items, what, lambda w, done, lap=lap: progress(w, (lap + done) / LAPS)
        )
        decodes = [step.busy_s + step.idle_s for step in timed_steps(sink.records) if not step.facts.chunks]
        laps.append(float(np.median(decodes)) * 1e3)
    (timeline,) = split_runs(sink.records)
    waste, held = waste_of(timeline)
    return {"block_size": size, "waste": waste, "held": held, "ms_per_step": min(laps), "laps_ms": laps}


def _room(rows: int, size: int) -> int:
    return rows * -(-LONGEST // size) + rows


def _model(model: LoadedModel) -> dict:
    spec = model.worker.spec
    return {
        "layers": spec.num_layers,
        "kv_heads": spec.num_kv_heads,
        "head_dim": spec.head_dim,
        "item_bytes": spec.kv_dtype.itemsize,
        "kv_bytes": spec.kv_bytes_per_token,
    }


def _pool(model: LoadedModel) -> dict:
    limits = model.worker.scheduling
    return {
        "blocks": limits.pool_blocks,
        "block_size": limits.block_size,
        "slots": limits.pool_blocks * limits.block_size,
        "max_model_len": limits.max_model_len,
        "bytes": model.worker.memory_map["kv_pool"],
    }


def _described(served: Served) -> dict:
    """Means over the steps in which somebody waited (over all steps where nobody ever did)."""
    busy = [place for place, waiting in enumerate(served.waiting) if waiting] or range(len(served.slots))
    slots = np.mean([served.slots[place] for place in busy], axis=0)
    return {
        "name": served.name,
        "shares": {name: float(value) / served.pool for name, value in zip(served.slots[0]._fields, slots)},
        "running": float(np.mean([served.running[place] for place in busy])),
        "most_running": served.most_running,
        "waited_steps": sum(waiting > 0 for waiting in served.waiting),
        "steps": len(served.slots),
        "mean_wait_steps": served.mean_wait_steps,
        "waste": served.internal_per_request,
        "preemptions": served.preemptions,
        "moved": served.moved,
    }


def _engine(timeline: Timeline) -> dict:
    """Requests that ran while others waited, in the real run."""
    running, waiting = [], []
    for state in after_steps(timeline):
        running.append(len(state.running))
        waiting.append(len(state.waiting))
    busy = [count for count, queue in zip(running, waiting) if queue] or running
    preemptions = timeline.state_at(timeline.last_seq).totals.preemptions
    return {"running": float(np.mean(busy)), "most_running": max(running), "preemptions": preemptions}


def _fullest(timeline: Timeline) -> State:
    """The state after the step in which most blocks were held, of equals the last in which somebody waited."""
    seen = [
        (state.pool.size - state.pool.available, bool(state.waiting), state.step.number, state.seq)
        for state in after_steps(timeline)
    ]
    return timeline.state_at(max(seen)[-1])
