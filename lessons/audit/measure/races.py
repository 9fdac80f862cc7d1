"""Two races: mixed lengths, and lengths that are all equal."""

from engine.workload import lengths
from engine.workload.drive import Progress
from engine.workload.race_spec import RaceSpec, run_race
from lessons.audit.measure.setup import BLOCK_SIZE, ROWS, bundled

REQUESTS = 24
DRAWN = ("lanes", "ticks")  # pictures of a run: not kept


def mixed(device: str, progress: Progress) -> dict:
    """All four schedulers, lengths of spread 1."""
    return _race(device, progress, RaceSpec(REQUESTS, ROWS, repeats=_repeats(device)))


def equal(device: str, progress: Progress) -> dict:
    """Static and in-flight, all answers of the same length."""
    spec = RaceSpec(REQUESTS, ROWS, spread=0.0, repeats=_repeats(device), schedulers=("static", "in_flight"))
    return _race(device, progress, spec)


def _repeats(device: str) -> int:
    """A GPU does a lap in a fraction of a second."""
    return 2 if device == "cpu" else 3


def _race(device: str, progress: Progress, spec: RaceSpec) -> dict:
    longest = lengths.PROMPTS[1] + lengths.LONGEST
    pool = ROWS * -(-longest // BLOCK_SIZE) + 1
    budget = ROWS * lengths.PROMPTS[1]
    with bundled(device, progress, pool, token_budget=budget, max_model_len=longest, prefix_cache=False) as model:
        results = run_race(model, spec, progress)
    for run in results["schedulers"].values():
        for name in DRAWN:
            run.pop(name)
    return results
