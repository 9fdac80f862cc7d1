"""A race from a recording: the results of ``race``, computed again from the records alone."""

import os
from collections.abc import Iterable

from engine.trace.answers import answers, duration_s
from engine.trace.events import Record
from engine.trace.files import load
from engine.trace.timeline import Timeline, split_runs
from engine.trace.views import RequestView
from engine.workload.drive import Outcome
from engine.workload.race import SCHEDULERS, Lap, compare, lap_of
from engine.workload.replay import items_of, scheduling_of

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
    results = compare(ordered, items_of(views, timeline), dict.fromkeys(ordered))
    return results, timeline.info


def _lap(timeline: Timeline, views: list[RequestView]) -> Lap:
    return lap_of(timeline, Outcome([view.output_ids for view in views], 0.0), scheduling_of(timeline))


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
