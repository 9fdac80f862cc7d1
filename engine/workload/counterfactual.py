"""What if? The requests of a run again, under another setting, beside the same requests under the setting they had.

Both sides are simulated (or both run on a real engine), so that they differ in the setting alone. The measured figures
stand beside them and tell how far the simulation can be trusted.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from engine.config import SchedulingConfig
from engine.trace.events import Step
from engine.trace.metrics import summary
from engine.trace.recorder import ListSink
from engine.trace.timeline import Timeline, split_runs
from engine.workload.drive import MakeEngine, drive
from engine.workload.replay import Asked, asked, machine_of, pieces_of, scheduling_of
from engine.workload.schedule_diff import Difference, first_difference
from engine.workload.settings import SETTINGS, changed
from engine.workload.simulate import simulate
from engine.workload.step_model import StepModel, fit

FIGURES = (
    "completed",
    "failed",
    "duration_s",
    "output_throughput",
    "median_ttft_ms",
    "p99_ttft_ms",
    "median_itl_ms",
    "p99_itl_ms",
    "preemptions",
    "recomputed_tokens",
    "cached_tokens",
    "evictions",
    "mean_waiting",
)


@dataclass(frozen=True, slots=True)
class Counterfactual:
    """Both sides of a question. ``summaries``: ``before`` and ``after``; ``measured`` is the run that was asked about.

    ``unfinished`` requests are taken to get as many tokens as they may; ``left_out`` ones gave no answer.
    """

    changes: dict[str, object]
    provenance: str  # Simulated, or Measured on a real engine
    measured: dict
    summaries: dict[str, dict]
    timelines: dict[str, Timeline]
    first_difference: Difference | None
    left_out: int
    unfinished: int
    model: StepModel | None

    def to_dict(self) -> dict:
        """Plain values for a report; the traces are not part of it."""
        return {
            "changes": self.changes,
            "provenance": self.provenance,
            "measured": self.measured,
            **self.summaries,
            "first_difference": self.first_difference and self.first_difference._asdict(),
            "left_out": self.left_out,
            "unfinished": self.unfinished,
            "model": self.model and self.model.to_dict(),
        }


def what_if(
    timeline: Timeline,
    changes: Mapping[str, object],
    model: StepModel | None = None,
    make_engine: MakeEngine | None = None,
) -> Counterfactual:
    """The run of ``timeline`` again, with ``changes`` (fields of ``SchedulingConfig``).

    Args:
        model: the step time to simulate with; fitted from the run itself when None.
        make_engine: run both sides on this engine instead of simulating them.

    Raises:
        InvalidRequest: no such setting, or a value out of range.
        RequestRefused: with the change a request of the run could never fit.
        ValueError: the run has no requests with answers, or no step to fit from.
    """
    scheduling, requests = scheduling_of(timeline), asked(timeline)
    sides = {"before": scheduling, "after": changed(scheduling, changes)}
    if not requests.items:
        raise ValueError("the run has no request with an answer: there is nothing to ask about")
    if make_engine is None:
        model = model or fit(timeline)
        runs = {name: _simulated(timeline, requests, side, model) for name, side in sides.items()}
    else:
        model = None
        runs = {name: _measured(make_engine, requests, side) for name, side in sides.items()}
    return Counterfactual(
        dict(changes),
        "Measured" if model is None else "Simulated",
        figures(timeline),
        {name: figures(run) for name, run in runs.items()},
        runs,
        first_difference(runs["before"], runs["after"]),
        requests.left_out,
        requests.unfinished,
        model,
    )


def figures(timeline: Timeline) -> dict:
    """The figures that are put side by side; ``mean_waiting`` are requests in the queue, over the time of the steps."""
    found = summary(timeline) | {"mean_waiting": _mean_waiting(timeline)}
    return {name: found[name] for name in FIGURES}


def _mean_waiting(timeline: Timeline) -> float:
    steps = [(record.t_ns, record.event.waiting) for record in timeline if isinstance(record.event, Step)]
    areas = [((late - early) * waiting, late - early) for (early, waiting), (late, _) in pairwise(steps)]
    span = sum(seconds for _, seconds in areas)
    return sum(area for area, _ in areas) / span if span else 0.0


def _simulated(timeline: Timeline, requests: Asked, scheduling: SchedulingConfig, model: StepModel) -> Timeline:
    seed = timeline.info.get("seed", 0)
    known, pieces = machine_of(timeline), pieces_of(timeline)
    return simulate(requests.items, scheduling, model, seed, None, requests.answers, known, pieces)


def _measured(make_engine: MakeEngine, requests: Asked, scheduling: SchedulingConfig) -> Timeline:
    sink = ListSink()
    overrides = {name: getattr(scheduling, name) for name in SETTINGS}  # all: the engine may be loaded with others
    drive(make_engine(overrides, (sink,)), requests.items)
    (timeline,) = split_runs(sink.records, "Measured")
    return timeline
