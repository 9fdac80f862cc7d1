"""The same requests through four schedulers on the same worker, and where the gain of in-flight batching comes from.

A fair race: same kernels, model, items; nothing cached between runs; each scheduler warms up first (shown apart); the
repeats are interleaved and each scheduler is judged by its least disturbed one, so that order does not matter.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from engine.config import SchedulingConfig
from engine.trace.gain import bound, factors, totals
from engine.trace.lanes import lanes
from engine.trace.metrics import duration_s, summary
from engine.trace.recorder import ListSink, Sink
from engine.trace.step_cost import StepCost, fit_cost
from engine.trace.step_facts import StepFacts, step_facts
from engine.trace.tables import request_table
from engine.trace.ticks import ticks
from engine.trace.timeline import Timeline, split_runs
from engine.workload.drive import FAIR, MakeEngine, Outcome, Progress, drive, silent
from engine.workload.items import Item, work_done
from engine.workload.simulate import simulate_steps

SCHEDULERS = {
    "static": "static",
    "static_shrinking": "static-shrinking",
    "dynamic": "dynamic",
    "in_flight": "in-flight",
}
SETTLED = 1.03  # the fastest lap of a scheduler is believed when a second one came within 3 %


@dataclass(slots=True)
class Lap:
    """One scheduler's run of the race."""

    outcome: Outcome
    timeline: Timeline
    scheduling: SchedulingConfig
    steps: list[StepFacts]
    wall_s: float


def race(
    make_engine: MakeEngine,
    items: Sequence[Item],
    schedulers: Sequence[str] = tuple(SCHEDULERS),
    progress: Progress = silent,
    repeats: int = 3,
    sinks: Sequence[Sink] = (),
) -> dict:
    """Race ``schedulers`` (names of ``SCHEDULERS``) over ``items``.

    Args:
        repeats: laps of each scheduler; more (twice as many at most) on a machine that is disturbed; 1 is just 1.
        make_engine: a fresh engine on the shared worker from overrides of its ``SchedulingConfig`` and sinks.
        sinks: where the records of the timed runs go besides.

    Returns:
        ``schedulers``: for each the metrics of its fastest repeat, lanes, requests, warm-up and all durations;
        ``gain`` of in-flight over padded static, its ``bound`` by the lengths alone, ``factors`` and
        ``predicted_factors`` (None when either scheduler did not run), and ``tokens_identical``.
    """
    warm_ups = {name: _warm_up(make_engine, items, name, progress) for name in schedulers}
    laps: dict[str, list[Lap]] = {name: [] for name in schedulers}
    while _needs_more(laps, repeats):
        repeat = len(laps[schedulers[0]]) + 1
        for name in schedulers if repeat % 2 else reversed(schedulers):
            what = f"{SCHEDULERS[name]}, repeat {repeat}"
            laps[name].append(_lap(make_engine, items, {"batching": SCHEDULERS[name]}, what, progress, sinks))
    return compare(laps, items, warm_ups)


def run_laps(
    make_engine: MakeEngine,
    items: Sequence[Item],
    runs: Mapping[str, Mapping[str, object]],
    repeats: int = 3,
    progress: Progress = silent,
    sinks: Sequence[Sink] = (),
) -> dict[str, dict]:
    """The same requests under each of ``runs`` (name -> overrides of ``SchedulingConfig``), interleaved.

    Returns:
        For each what ``race`` says of a scheduler: the metrics of its fastest repeat, lanes, requests, all durations.

    Raises:
        RuntimeError: the laps did not do the same work.
    """
    laps: dict[str, list[Lap]] = {name: [] for name in runs}
    for repeat in range(1, repeats + 1):
        for name, overrides in runs.items():
            laps[name].append(_lap(make_engine, items, overrides, f"{name}, repeat {repeat}", progress, sinks))
    outputs = [lap.outcome.outputs for done in laps.values() for lap in done]
    _check_same_work(items, outputs)
    best = {name: min(done, key=lambda lap: lap.wall_s) for name, done in laps.items()}
    return {name: _describe(best[name], laps[name], None, outputs[0]) for name in runs}


def compare(laps: Mapping[str, list[Lap]], items: Sequence[Item], warm_ups: Mapping[str, float | None]) -> dict:
    """The results of ``race`` from all laps of each scheduler; a warm-up is None when it is not known (a recording).

    Raises:
        RuntimeError: the laps did not do the same work.
    """
    best = {name: min(runs, key=lambda lap: lap.wall_s) for name, runs in laps.items()}
    outputs = [lap.outcome.outputs for runs in laps.values() for lap in runs]
    _check_same_work(items, outputs)
    described = {name: _describe(best[name], laps[name], warm_ups[name], outputs[0]) for name in laps}
    identical = all(other == outputs[0] for other in outputs)
    return {"schedulers": described} | _explain(best, laps, items) | {"tokens_identical": identical}


def lap_of(timeline: Timeline, outcome: Outcome, scheduling: SchedulingConfig) -> Lap:
    """A lap from the records of its run."""
    return Lap(outcome, timeline, scheduling, step_facts(timeline), duration_s(timeline))


def first_divergence(expected: list[list[int]], got: list[list[int]]) -> dict | None:
    """The first request whose tokens differ, and where; None when all are equal."""
    for index, (left, right) in enumerate(zip(expected, got, strict=True)):
        if left != right:
            pairs = zip(left, right, strict=False)
            position = next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(left), len(right)))
            return {"request": index, "position": position}
    return None


def _needs_more(laps: dict[str, list[Lap]], repeats: int) -> bool:
    """Whether to go round again: ``repeats`` times always, then until the fastest laps compared are confirmed."""
    done = min(map(len, laps.values()))
    if done < repeats or repeats == 1:
        return done < repeats
    compared = [laps[name] for name in ("static", "in_flight") if name in laps]
    fastest = [sorted(lap.wall_s for lap in runs)[:2] for runs in compared]
    return done < 2 * repeats and any(second > SETTLED * first for first, second in fastest)


def _warm_up(make_engine: MakeEngine, items: Sequence[Item], name: str, progress: Progress) -> float:
    """Seconds of a short run that pays for compilation, capture and first touches."""
    engine = make_engine(FAIR | {"batching": SCHEDULERS[name]}, ())
    few = [replace(item, arrival_s=0.0) for item in items[: 2 * engine.config.scheduling.max_num_seqs]]
    return drive(engine, few, f"{SCHEDULERS[name]}, warm-up", progress).seconds


def _lap(
    make_engine: MakeEngine,
    items: Sequence[Item],
    overrides: Mapping[str, object],
    what: str,
    progress: Progress,
    sinks: Sequence[Sink],
) -> Lap:
    sink = ListSink()
    engine = make_engine(FAIR | dict(overrides), (sink, *sinks))
    outcome = drive(engine, items, what, progress)
    (timeline,) = split_runs(sink.records)
    return lap_of(timeline, outcome, engine.config.scheduling)


def _check_same_work(items: Sequence[Item], outputs: Sequence[list[list[int]]]) -> None:
    done = [work_done(items, output) for output in outputs]
    if any(other != done[0] for other in done):
        raise RuntimeError("the runs produced answers of different lengths: they cannot be compared")


def _describe(lap: Lap, runs: Sequence[Lap], warm_up_s: float | None, expected: list[list[int]]) -> dict:
    return summary(lap.timeline) | {
        "repeats_s": [run.wall_s for run in runs],
        "warm_up_s": warm_up_s,
        "first_divergence": first_divergence(expected, lap.outcome.outputs),
        "requests": request_table(lap.timeline),
        "lanes": lanes(lap.timeline),
        "ticks": ticks(lap.timeline),
    }


def _explain(best: Mapping[str, Lap], laps: Mapping[str, list[Lap]], items: Sequence[Item]) -> dict:
    """Gain, bound and factors of in-flight over padded static."""
    rows = next(iter(best.values())).scheduling.max_num_seqs
    limit = bound([item.output_length for item in items], rows)
    if not {"static", "in_flight"} <= best.keys():
        return {"gain": None, "bound": limit, "factors": None, "predicted_factors": None}
    compared = [best["static"], best["in_flight"]]
    cost = _fit(compared, laps)
    static, in_flight = (totals(lap.steps, lap.wall_s, cost) for lap in compared)
    forecasts = [simulate_steps(items, replace(lap.scheduling, steps_in_flight=0), cost) for lap in compared]
    predicted = factors(*(totals(steps, wall_s, cost) for steps, wall_s in forecasts), rows)
    predicted["ideal"] = bound([item.output_length - 1 for item in items], rows)
    return {
        "gain": static.wall_s / in_flight.wall_s,
        "bound": limit,
        "factors": factors(static, in_flight, rows),
        "predicted_factors": predicted,
    }


def _fit(compared: Sequence[Lap], laps: Mapping[str, list[Lap]]) -> StepCost:
    """The cost of a step, from each scheduler's fastest lap that is not compared: a prediction, not a description.

    With a single lap each, the compared ones have to serve too.
    """
    others = [[lap for lap in runs if all(lap is not one for one in compared)] or runs for runs in laps.values()]
    quiet = [min(runs, key=lambda lap: lap.wall_s) for runs in others]
    return fit_cost(facts for lap in quiet for facts in lap.steps)
