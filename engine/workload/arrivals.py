"""When requests arrive: renewal processes, and a rate that switches on and off. Pure functions of their seed."""

from collections.abc import Sequence
from dataclasses import replace
from random import Random

from engine.workload.items import Workload


def gamma_arrivals(requests: int, rate: float, cv: float, seed: int) -> list[float]:
    """Arrival times in seconds of a renewal process with ``rate`` per second and coefficient of variation ``cv``.

    Gamma intervals of shape 1/cv^2: 1 is Poisson, 0 a steady clock, above 1 bursts.
    """
    rng, now, times = Random(seed), 0.0, []
    for _ in range(requests):
        now += 1 / rate if cv == 0 else rng.gammavariate(1 / cv**2, cv**2 / rate)
        times.append(now)
    return times


def on_off(times: Sequence[float], on_s: float, off_s: float, seed: int) -> list[float]:
    """``times`` with pauses put between them: nothing arrives in the off-phases, and the mean rate stays.

    Phases have exponential lengths with means ``on_s`` and ``off_s`` seconds. Such a rate makes counts over minutes
    vary far more than the intervals alone would, as public traces do.
    """
    rng = Random(seed)
    squeeze = on_s / (on_s + off_s)
    paused, phase_end, spread = 0.0, rng.expovariate(1 / on_s), []
    for time in times:
        while time * squeeze > phase_end:
            paused += rng.expovariate(1 / off_s)
            phase_end += rng.expovariate(1 / on_s)
        spread.append(time * squeeze + paused)
    return spread


def paced(workload: Workload, rate: float, cv: float, pauses: tuple[float, float] | None = None) -> Workload:
    """The workload with arrivals at ``rate`` a second and variation ``cv``; ``pauses``: mean seconds on and off."""
    times = gamma_arrivals(len(workload.items), rate, cv, workload.seed)
    notes = [f"{rate:g} arrivals a second, CV {cv:g}"]
    if pauses is not None:
        times = on_off(times, *pauses, workload.seed + 1)
        notes.append(f"{pauses[0]:g} s on, {pauses[1]:g} s off")
    items = [replace(item, arrival_s=time) for item, time in zip(workload.items, times, strict=True)]
    return replace(workload, items=items, notes=(*workload.notes, *notes))
