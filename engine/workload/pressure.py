"""Capacity policies while the pool is smaller than what is asked of it: tokens/s, what is computed twice, and for whom.

*Pressure* is demand over pool: the blocks that full rows would hold if every request were at its end, divided by the
blocks there are. Above 1 somebody has to wait, or to give his blocks back.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from engine.config import SchedulingConfig
from engine.loading import LoadedModel
from engine.provenance import device_name
from engine.trace.answers import answers
from engine.trace.metrics import summary
from engine.trace.recorder import ListSink
from engine.trace.step_cost import fit_cost
from engine.trace.step_facts import step_facts
from engine.trace.timeline import Timeline, split_runs
from engine.trace.views import label
from engine.workload.bench import shorten
from engine.workload.classroom import LOADING, after_steps, blocks_of, chats, drive_in_steps, small_model
from engine.workload.drive import FAIR, Progress, silent
from engine.workload.items import Item
from engine.workload.race import first_divergence
from engine.workload.simulate import simulate_steps

POLICIES = ("max-utilization", "guaranteed-no-evict")
ROWS, BLOCK = 8, 16
KINDS = {  # prompts, mean answer, answers
    "chats": ((16, 96), 64, (8, 200)),
    "documents": ((192, 448), 24, (8, 64)),
}
LONGEST = 896  # tokens of a request, declared
ROOMY = 0.5  # a pressure at which nobody waits for blocks
EVERY = 2  # steps from one arrival to the next in a close look
MORE = 1.1  # the counterfactual pool


@dataclass(frozen=True, slots=True)
class Ran:
    """One run: its tokens, its trace, and the settings it ran with."""

    outputs: list[list[int]]
    timeline: Timeline
    scheduling: SchedulingConfig


def workload(kind: str, requests: int, declared: float, seed: int, vocab: int) -> list[Item]:
    """Requests of a kind of ``KINDS`` that declare ``declared`` times the tokens that their answers will have."""
    items = chats(requests, seed, vocab, *KINDS[kind])
    return [replace(item, max_tokens=round(declared * item.output_length)) for item in items]


def demand_blocks(items: Sequence[Item]) -> float:
    """Blocks that full rows would hold, every request at its end."""
    blocks = blocks_of(items, BLOCK)
    return ROWS * sum(blocks) / len(blocks)


def pool_for(items: Sequence[Item], pressure: float) -> int:
    """Blocks at a pressure; never fewer than the longest declared request needs, which would be refused."""
    least = max(-(-(len(item.prompt_ids) + item.max_tokens) // BLOCK) for item in items)
    return max(least, round(demand_blocks(items) / pressure))


def compare_policies(
    kind: str,
    requests: int,
    declared: float,
    victim: str,
    pressures: Sequence[float],
    repeats: int,
    seed: int,
    progress: Progress = silent,
) -> dict:
    """Both policies over the same requests at each pressure, all at t=0.

    Returns:
        ``device``, ``demand`` (blocks), ``identical`` (whether all runs produced the same tokens), ``divergence`` (the
        first that differs, or None) and ``entries``: ``pressure``, ``pool``, ``policy``, ``tok_s`` of the fastest
        repeat, ``steps``, ``preemptions``, ``recomputed`` and ``useful`` tokens, and ``predicted_tok_s``: the real
        scheduler on a virtual clock, with the cost of a step as fitted in the run at the least pressure.
    """
    with small_model(None, _scheduling(), 64, progress) as model:
        items = workload(kind, requests, declared, seed, model.limits.vocab_size)
        cost, outputs, entries = None, [], []
        for place, pressure in enumerate(sorted(pressures)):

            def share(what: str, done: float, place: int = place) -> None:
                progress(what, LOADING + (1 - LOADING) * (place + done) / len(pressures))

            laps = _laps(model, items, pool_for(items, pressure), victim, repeats, share)
            cost = cost or fit_cost(step_facts(laps[POLICIES[0]][0].timeline))
            for policy, ran in laps.items():
                outputs += [each.outputs for each in ran]
                seconds = simulate_steps(items, replace(ran[0].scheduling, steps_in_flight=0), cost)[1]
                entry = {"pressure": pressure, "policy": policy, "pool": ran[0].scheduling.pool_blocks}
                predicted = sum(item.output_length for item in items) / seconds
                entries.append(entry | _numbers(ran) | {"predicted_tok_s": predicted})
        differ = [found for other in outputs if (found := first_divergence(outputs[0], other))]
        return {
            "device": device_name(model.worker.device),
            "demand": demand_blocks(items),
            "identical": not differ,
            "divergence": differ[0] if differ else None,
            "entries": entries,
        }


def close_look(
    requests: int, pressure: float, policy: str, victim: str, seed: int, progress: Progress = silent
) -> dict:
    """One run under pressure, the same with a tenth more blocks, and the same with room for all.

    Every third request is less important than the others (priority 1); they arrive ``EVERY`` steps apart.

    Returns:
        ``device``, ``identical`` and ``divergence`` (of the run against the roomy one), ``lengths`` in blocks (of the
        prompt, in the end) and ``runs``: ``chosen``, ``more`` and ``roomy``, see ``_described``.
    """
    with small_model(None, _scheduling(), 64, progress) as model:
        items = workload("chats", requests, 1.0, seed, model.limits.vocab_size)
        pool = pool_for(items, pressure)
        sizes = {"roomy": pool_for(items, ROOMY), "chosen": pool, "more": max(pool + 1, round(MORE * pool))}
        ran = {}
        for place, (name, blocks) in enumerate(sizes.items()):

            def share(what: str, done: float, place: int = place) -> None:
                progress(what, LOADING + (1 - LOADING) * (place + done) / len(sizes))

            settings = {"pool_blocks": blocks, "preemption": victim}
            ran[name] = _run(
                model, items, settings | {"capacity": policy}, EVERY, share, [i % 3 == 2 for i in range(requests)]
            )
        differs = first_divergence(ran["roomy"].outputs, ran["chosen"].outputs)
        prompts = [-(-len(item.prompt_ids) // BLOCK) for item in items]
        return {
            "device": device_name(model.worker.device),
            "identical": differs is None,
            "divergence": differs,
            "lengths": [list(pair) for pair in zip(prompts, blocks_of(items, BLOCK))],
            "runs": {name: _described(each) for name, each in ran.items()},
        }


def spans(timeline: Timeline) -> list[dict]:
    """When each request held a row: ``id``, ``label``, ``priority``, ``arrived`` (step) and ``spans``, a list of
    ``[first step, last step, why it ended]``: ``"preempt"`` or ``"end"``."""
    found: dict[int, dict] = {}
    before: set[int] = set()
    for state in after_steps(timeline):
        step, running = state.step.number, set(state.running)
        for request, view in state.requests.items():
            known = {"id": request, "label": label(request), "priority": view.priority, "arrived": step, "spans": []}
            found.setdefault(request, known)
        for request in running - before:
            found[request]["spans"].append([step, step, "end"])
        for request in before - running:
            ended = state.requests[request].has_ended
            found[request]["spans"][-1][1:] = [step - 1, "end" if ended else "preempt"]
        for request in running:
            found[request]["spans"][-1][1] = step
        before = running
    return [found[request] for request in sorted(found)]


def _scheduling() -> SchedulingConfig:
    return SchedulingConfig(max_num_seqs=ROWS, token_budget=512, max_model_len=LONGEST, prefix_cache=False)


def _laps(
    model: LoadedModel, items: Sequence[Item], pool: int, victim: str, repeats: int, progress: Progress
) -> dict[str, list[Ran]]:
    """All repeats of both policies on one pool, taking turns, after a short run that warms up."""
    settings = {"pool_blocks": pool, "preemption": victim}
    _run(model, [shorten(item) for item in items[:ROWS]], settings, 0, silent)
    laps: dict[str, list[Ran]] = {policy: [] for policy in POLICIES}
    for lap in range(repeats):
        for place, policy in enumerate(POLICIES):

            def share(what: str, done: float, at: int = lap * len(POLICIES) + place) -> None:
                progress(what, (at + done) / (repeats * len(POLICIES)))

            laps[policy].append(_run(model, items, settings | {"capacity": policy}, 0, share))
    return laps


def _run(
    model: LoadedModel,
    items: Sequence[Item],
    settings: dict[str, object],
    every: int,
    progress: Progress,
    priorities: Sequence[int] = (),
) -> Ran:
    sink = ListSink()
    engine = model.new_engine(FAIR | settings, (sink,))
    outputs = drive_in_steps(engine, items, every, progress, [int(priority) for priority in priorities])
    (timeline,) = split_runs(sink.records)
    return Ran(outputs, timeline, engine.config.scheduling)


def _numbers(ran: Sequence[Ran]) -> dict:
    """Counts of a run, and the tokens/s of each repeat: the fastest is the least disturbed one."""
    found = [summary(each.timeline) for each in ran]
    first = found[0]
    return {
        "tok_s": max(each["output_throughput"] for each in found),
        "laps_tok_s": [each["output_throughput"] for each in found],
        "steps": ran[0].timeline.last_step,
        "preemptions": first["preemptions"],
        "recomputed": first["recomputed_tokens"],
        "useful": first["total_input_tokens"] + first["total_output_tokens"],
    }


def _described(ran: Ran) -> dict:
    """Counts; ``requests`` with their ``spans``, ``gaps_ms`` between their tokens and ``lost`` tokens; ``used`` blocks
    of each step; ``pool``."""
    gaps = {answer.view.id: answer for answer in answers(ran.timeline)[0]}
    requests = [
        each | {"gaps_ms": gaps[each["id"]].gaps_ms, "lost": gaps[each["id"]].view.lost_tokens}
        for each in spans(ran.timeline)
    ]
    used = [state.pool.size - state.pool.available for state in after_steps(ran.timeline)]
    return _numbers([ran]) | {"requests": requests, "used": used, "pool": ran.scheduling.pool_blocks}
