"""How far the simulator is off: it is fitted on one workload, and predicts others that it has not seen.

A run on a shared machine can be disturbed, never sped up. So the passes are interleaved, and the model is fitted on,
and compared with, the fastest pass of each workload.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from engine.config import SchedulingConfig
from engine.trace.metrics import summary
from engine.trace.recorder import ListSink
from engine.trace.timeline import Timeline, split_runs
from engine.workload import lengths
from engine.workload.arrivals import paced
from engine.workload.drive import FAIR, MakeEngine, Progress, drive, silent
from engine.workload.items import Item, Workload, fit
from engine.workload.named import by_name
from engine.workload.prefixes import random_ids
from engine.workload.shrink import shrunk
from engine.workload.simulate import compare, simulate, simulate_summary
from engine.workload.step_model import StepModel
from engine.workload.step_model import fit as fit_model

GOALS = {"output_throughput": 0.10, "p99_ttft_ms": 0.20}  # largest relative error of a workload it was not fitted on
LOAD = 0.7  # of the throughput with all requests at once: the rate of the workload with arrivals
FORMULAS: dict[str, str] = {
    "error": "simulated / measured - 1",
    "within_goal": "throughput within 10 % and p99 TTFT within 20 % on every workload that the model was not fitted on",
}


@dataclass(frozen=True, slots=True)
class _Task:
    workload: Workload
    concurrency: int | None = None


@dataclass(frozen=True, slots=True)
class _Pass:
    timeline: Timeline
    scheduling: SchedulingConfig
    figures: dict


def check_simulator(
    make_engine: MakeEngine,
    max_model_len: int,
    vocab_size: int,
    requests: int = 128,
    repeats: int = 3,
    seed: int = 0,
    progress: Progress = silent,
) -> dict:
    """Fit on one workload of ``requests`` requests, predict three others, and measure them.

    Returns:
        ``model`` (coefficients and the error of the fit), ``workloads`` (name -> figures measured, simulated and their
        error; the first is the one fitted on) and ``within_goal``.
    """

    def cut(made: Workload) -> Workload:
        return fit(shrunk(made, max_model_len), max_model_len, vocab_size)

    tasks = [_Task(cut(learning_set(requests, seed)), requests)]
    rough = _run(make_engine, tasks[0], "a first look", progress)
    tasks += [_Task(cut(lengths.w1(requests, seed))), _Task(cut(by_name("azure-chat", requests, seed)))]
    tasks.append(_Task(_at_load(cut(by_name("azure-code", requests, seed)), rough)))
    passes = _fastest(make_engine, tasks, repeats, progress)
    model = fit_model(passes[0].timeline)
    found = {task.workload.name: _errors(task, one, model) for task, one in zip(tasks, passes, strict=True)}
    return {"model": model.to_dict(), "workloads": found, "within_goal": within_goal(list(found.values())[1:])}


def within_goal(compared: Sequence[dict]) -> bool:
    """Whether every comparison keeps the goals."""
    return all(abs(one[name]["error"]) <= goal for one in compared for name, goal in GOALS.items())


def _errors(task: _Task, measured: _Pass, model: StepModel) -> dict:
    made = task.workload
    simulated = simulate(made.items, measured.scheduling, model, made.seed, task.concurrency)
    return compare(measured.figures, summary(simulated))


def learning_set(requests: int, seed: int) -> Workload:
    """What a step time can be learned from, driven with ``requests`` under way: no two coefficients look alike on it.

    First come short prompts, all at once; then half as many long ones, which enter one by one where a short one has
    left. So there are steps with many rows and little context, with as many rows and much, and with few of either.
    """
    rng = Random(seed + 1)
    short = [(rng.randint(4, 64), round(8 * 32 ** rng.random())) for _ in range(requests)]
    long = [(round(64 * 24 ** rng.random()), rng.randint(32, 256)) for _ in range(requests // 2)]
    items = [Item(random_ids(rng, prompt), output, output) for prompt, output in short + long]
    return Workload("fitted on: short prompts, then long ones", items, seed)


def _at_load(workload: Workload, rough: _Pass) -> Workload:
    """Poisson arrivals at ``LOAD`` of what a model fitted on ``rough`` says it can take."""
    most = simulate_summary(workload.items, rough.scheduling, fit_model(rough.timeline))["request_throughput"]
    return paced(workload, LOAD * most, 1.0)


def _fastest(make_engine: MakeEngine, tasks: Sequence[_Task], repeats: int, progress: Progress) -> list[_Pass]:
    """The fastest of ``repeats`` interleaved passes of each task, after one that warms up."""
    passes: list[list[_Pass]] = [[] for _ in tasks]
    for repeat in range(repeats + 1):
        for task, done in zip(tasks, passes):
            what = f"{task.workload.name}, " + (f"pass {repeat} of {repeats}" if repeat else "warm-up")
            one = _run(make_engine, task, what, progress)
            done += [one] if repeat else []
    return [min(done, key=lambda one: one.figures["mean_e2el_ms"]) for done in passes]


def _run(make_engine: MakeEngine, task: _Task, what: str, progress: Progress) -> _Pass:
    sink = ListSink()
    engine = make_engine(FAIR, (sink,))
    drive(engine, task.workload.items, what, progress, task.concurrency)
    (timeline,) = split_runs(sink.records, "Measured")
    return _Pass(timeline, engine.config.scheduling, summary(timeline))
