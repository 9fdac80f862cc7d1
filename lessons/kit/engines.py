"""The engine and the device as the functions of experiments get them; the stage says which ones these are."""

from contextlib import AbstractContextManager

from engine.driver import Driver
from engine.workload.race_spec import RaceSpec
from lessons.kit.items import Report
from lessons.kit.say import Say, say
from lessons.kit.stage import stage

_NAMES = {
    "static": say("kit.static", "static, padded"),
    "static-shrinking": say("kit.static_shrinking", "static, shrinking"),
    "dynamic": say("kit.dynamic", "dynamic"),
    "in-flight": say("kit.in_flight", "in-flight"),
}


def driver() -> Driver:
    """The engine, ready; call it inside the function of an experiment, never in a cell: it may have to start."""
    return stage().driver()


def alone(what: str) -> AbstractContextManager:
    """The device for the caller: a running engine stands still at a step boundary. For work with kernels or torch."""
    return stage().alone(what)


def on_gpu() -> bool:
    """Whether kernels run on a CUDA device here."""
    return device().startswith("cuda")


def device() -> str:
    """``"cuda"`` or ``"cpu"``: where kernels run."""
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def race(spec: RaceSpec, report: Report) -> dict:
    """Race schedulers on the loaded model: the results of ``engine.workload.race``, and the ``device``."""
    laps: list[str] = []

    def heard(what: str, share: float) -> None:
        if what not in laps:
            laps.append(what)
        whole = len(spec.schedulers) * (1 + spec.repeats)  # a disturbed race may go round again
        report(_lap(what), min(0.99, (laps.index(what) + share) / whole))

    engine = driver()
    return engine.race(spec, heard) | {"device": engine.info["device"]}


def _lap(what: str) -> Say | str:
    """``"in-flight, repeat 2"`` as a sentence."""
    batching, _, lap = what.partition(", ")
    if batching not in _NAMES:
        return what
    if lap == "warm-up":
        return say("kit.warm_up", "{name}: warm-up, not counted", name=_NAMES[batching])
    return say("kit.lap", "{name}: run {n}", name=_NAMES[batching], n=lap.removeprefix("repeat "))
