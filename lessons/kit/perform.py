"""Runs the function of an experiment on a stage, and says on which machine it ran."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from engine.provenance import commit, device_name, driver_version, versions
from lessons.kit.items import Experiment, Report
from lessons.kit.progress import today
from lessons.kit.shelf import Kept

if TYPE_CHECKING:
    from lessons.kit.stage import Stage


def perform(stage: "Stage", experiment: Experiment, values: Mapping[str, object], report: Report) -> Kept:
    """Run it with these values of its controls. A key ``device`` of its results names the device."""
    with stage.on():
        results = dict(experiment.function(report, **values))
    return Kept(results, dict(values), machine(results.pop("device", "") or device_here()))


def usual(experiment: Experiment) -> dict[str, object]:
    """The defaults of the controls."""
    return {control.name: control.default for control in experiment.controls}


def smallest(experiment: Experiment) -> dict[str, object]:
    """Their small values: for a test, or a slow machine."""
    return {each.name: each.default if each.small is None else each.small for each in experiment.controls}


def machine(device: str) -> dict[str, object]:
    """What stands beside results: device, driver, versions, commit, date."""
    facts = {"driver": driver_version(), "versions": versions(), "commit": commit()}
    return {"device": device, "date": today()} | facts


def device_here() -> str:
    """What kernels run on here, by its maker's name."""
    import torch

    return device_name("cuda" if torch.cuda.is_available() else "cpu")
