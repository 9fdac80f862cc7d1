"""What the commands that compare print."""

from collections.abc import Mapping

from engine.workload import remote, simulator_check
from engine.workload.report import box, metric_rows, number

SHOWN = (
    "output_throughput",
    "duration_s",
    "median_ttft_ms",
    "p99_ttft_ms",
    "p99_tpot_ms",
    "p99_itl_ms",
    "preemptions",
    "recomputed_tokens",
    "cached_tokens",
)
RACED = ("output_throughput", "duration_s", "median_ttft_ms", "p99_ttft_ms", "median_itl_ms", "p99_itl_ms")


def study(name: str, found: Mapping[str, dict]) -> list[str]:
    """Both settings side by side, then what must hold of them."""
    (first, one), (second, other) = found["settings"].items()
    rows = [("figure", first, second, "ratio")]
    rows += [(figure, *map(number, (one[figure], other[figure], found["ratios"][figure]))) for figure in SHOWN]
    goals = []
    for goal in found["goals"]:
        bounds = [f"at {word} {number(goal[f'at_{word}'])}" for word in ("least", "most") if goal[f"at_{word}"]]
        verdict = "holds" if goal["holds"] else "MISSED"
        goals.append(f"{goal['figure']}: {number(goal['ratio'])}, {' and '.join(bounds)}: {verdict}.")
    workload = found["workload"]
    title = f"{name}: {workload['requests']} requests, {workload['name']}"
    return [box(title, rows), *goals]


def simulator(found: Mapping[str, dict]) -> list[str]:
    """The model, then measured and simulated figures of each workload."""
    cost, error = found["model"]["cost"], found["model"]["error"]
    fitted = [(name, number(value)) for name, value in cost.items()]
    fitted += [(f"error of the fit, {name}", number(value)) for name, value in error.items()]
    rows = [("workload", "figure", "measured", "simulated", "error %")]
    for name, figures in found["workloads"].items():
        for figure, value in figures.items():
            numbers = (value["measured"], value["simulated"], 100 * value["error"])
            rows.append((name, figure, *map(number, numbers)))
    verdict = "kept" if found["within_goal"] else "MISSED"
    goal = f"Goal ({simulator_check.FORMULAS['within_goal']}): {verdict}."
    return [box("Seconds of a step (Simulated from these)", fitted), box("Measured and simulated", rows), goal]


def counterfactual(found: Mapping[str, object]) -> list[str]:
    """Measured run, both sides of the question, and where they part."""
    rows = [("figure", "measured", f"before ({found['provenance']})", f"after ({found['provenance']})")]
    sides = [found[side] for side in ("measured", "before", "after")]
    rows += [(name, *(number(side[name]) for side in sides)) for name in found["before"]]
    difference = found["first_difference"]
    words = "Both schedules are the same."
    if difference is not None:
        before, after = _did(difference["before"]), _did(difference["after"])
        words = f"They part at step {difference['step']}: {before}; with the change: {after}."
    changes = ", ".join(f"{name} = {value}" for name, value in found["changes"].items())
    return [box(f"What if {changes}?", rows), words]


def contestants(found: Mapping[str, dict]) -> list[str]:
    """One line for each other contestant of a race."""
    rows = [("contestant", *RACED)]
    rows += [(name, *(number(one.get(figure)) for figure in RACED)) for name, one in found.items()]
    return [box("Other contestants, the same requests", rows)]


def served(url: str, found: Mapping[str, object]) -> list[str]:
    """The figures of a server; the first reason if any request failed."""
    tables = [box(url, metric_rows(dict(found), remote.FORMULAS))]
    return tables + ([f"The first failure: {found['error']}"] if found["error"] else [])


def _did(step: Mapping[str, list] | None) -> str:
    """What a step did, in a few words."""
    if step is None:
        return "it had ended"
    parts = [f"{len(step['decodes'])} decode"]
    parts += [f"{len(step['chunks'])} prefill"] if step["chunks"] else []
    parts += [f"{name} {', '.join(map(str, step[name]))}" for name in ("admitted", "preempted") if step[name]]
    return ", ".join(parts)
