"""A race from a recording: the results of ``race``, computed again from the records alone."""

import os
from collections.abc import Iterable
from dataclasses import fields

from engine.config import SchedulingConfig
from engine.trace.answers import answers, duration_s
from engine.trace.events import Record
from engine.trace.files import load
from engine.trace.timeline import Timeline, split_runs
from engine.trace.views import RequestView
from engine.workload.drive import Outcome
from engine.workload.items import Item
from engine.workload.race import SCHEDULERS, Lap, compare, lap_of

NAMES = {batching: name for name, batching in SCHEDULERS.items()}


def recorded_race(path: str | os.PathLike) -> tuple[dict, dict]:
    """The results as ``race`` returns them, and the facts of the RUN record.

    Raises:
        ValueError: not a recording, written by a newer version, or not of a race.
    """
    laps: dict[str, list[Lap]] = {}
    views: list[RequestView] = []
    for timeline in split_runs(load(path)):
        name = NAMES.get(timeline.info.get("config", {}).get("scheduling", {}).get("batching"))
        if name is None:
            raise ValueError(f"{path} is not the recording of a race")
        views = [answer.view for answer in answers(timeline)[0]]
        laps.setdefault(name, []).append(_lap(timeline, views))
    if not laps:
        raise ValueError(f"{path} holds no run")
    ordered = {name: laps[name] for name in SCHEDULERS if name in laps}
    results = compare(ordered, _items(views, timeline), dict.fromkeys(ordered))
    return results, timeline.info


def _lap(timeline: Timeline, views: list[RequestView]) -> Lap:
    known = timeline.info["config"]["scheduling"]
    names = {field.name for field in fields(SchedulingConfig)}
    scheduling = SchedulingConfig(
        **{name: tuple(value) if isinstance(value, list) else value for name, value in known.items() if name in names}
    )
    outcome = Outcome([view.output_ids for view in views], 0.0)
    return lap_of(timeline, outcome, scheduling)


def _items(views: list[RequestView], timeline: Timeline) -> list[Item]:
    """The workload. What arrived before the first step arrived together: submitting it took some microseconds each."""
    origin, first_step = timeline.index.origin_ns, timeline.index.start_ns[0]

    def arrival_s(view: RequestView) -> float:
        return (view.arrived_ns - origin) / 1e9 if view.arrived_ns > first_step else 0.0

    return [
        Item(view.token_ids[: view.prompt_length], view.max_tokens, view.num_output, arrival_s(view)) for view in views
    ]


def trimmed(records: Iterable[Record]) -> list[Record]:
    """The fastest and the slowest lap of each scheduler: enough for the results and their range, and small to ship."""
    laps: dict[str, list[Timeline]] = {}
    for timeline in split_runs(records):
        laps.setdefault(timeline.info["config"]["scheduling"]["batching"], []).append(timeline)
    kept: list[Timeline] = []
    for runs in laps.values():
        ranked = sorted(runs, key=duration_s)
        kept += ranked[:1] + ranked[1:][-1:]
    return [record for timeline in kept for record in timeline]
