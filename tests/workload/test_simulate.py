"""The simulator: a real trace on a virtual clock, a step time fitted from a trace, and questions about a run."""

import random
from dataclasses import replace

import pytest

from engine.config import SchedulingConfig
from engine.errors import InvalidRequest
from engine.trace.checks import checks
from engine.trace.events import Leave, Step
from engine.trace.files import load, save
from engine.trace.frame import frame
from engine.trace.metrics import summary
from engine.trace.recorder import ListSink
from engine.trace.step_cost import StepCost
from engine.trace.timeline import split_runs
from engine.workload import lengths
from engine.workload.arrivals import paced
from engine.workload.counterfactual import what_if
from engine.workload.drive import drive
from engine.workload.items import Item
from engine.workload.replay import asked
from engine.workload.schedule_diff import first_difference, schedule
from engine.workload.settings import changed, parse_change
from engine.workload.simulate import compare, simulate, simulate_summary
from engine.workload.simulator_check import check_simulator, within_goal
from engine.workload.step_model import StepModel, fit

MODEL = StepModel(StepCost(1e-3, 1e-4, 1e-6, 2e-4, 1e-5, 1e-9))
SMALL = SchedulingConfig(pool_blocks=40, block_size=8, max_num_seqs=6, token_budget=48, max_model_len=256)


def items(seed: int, count: int = 30) -> list[Item]:
    rng = random.Random(seed)
    prompts = [[rng.randrange(5) for _ in range(rng.randint(1, 60))] for _ in range(count)]
    drawn = [Item(prompt, rng.randint(1, 40), arrival_s=rng.random() / 10) for prompt in prompts]
    return [replace(item, forced_output_length=rng.randint(1, item.max_tokens)) for item in drawn]


CONFIGS = [
    replace(SMALL, batching=batching, capacity=capacity, chunking=chunking, steps_in_flight=depth)
    for batching, capacity, chunking, depth in [
        ("in-flight", "max-utilization", "fcfs", 0),
        ("in-flight", "max-utilization", "equal", 1),
        ("in-flight", "guaranteed-no-evict", "fcfs", 1),
        ("static", "max-utilization", "fcfs", 0),
        ("dynamic", "max-utilization", "fcfs", 1),
        ("static-shrinking", "guaranteed-no-evict", "equal", 0),
    ]
]


@pytest.mark.parametrize("config", CONFIGS, ids=lambda c: f"{c.batching}-{c.capacity}-{c.steps_in_flight}")
def test_the_tally_says_what_the_trace_says(config):
    """Guards the fast twin: figures counted on the way must be those folded from the whole trace, preemptions too."""
    whole, quick = summary(simulate(items(1), config, MODEL)), simulate_summary(items(1), config, MODEL)
    shared = [name for name in quick if name in whole]
    assert len(shared) > 25 and quick["completed"] == 30
    assert {name: quick[name] for name in shared} == pytest.approx({name: whole[name] for name in shared})


def test_a_simulated_run_is_a_trace_like_any_other(tmp_path):
    """Guards the promise that all views work on it, and its badge, which must survive a file."""
    timeline = simulate(items(2), SMALL, MODEL)
    assert [check for check in checks(timeline) if check.ok is False] == []
    assert any(isinstance(record.event, Leave) and record.event.lost_tokens for record in timeline)
    assert frame(timeline, timeline.last_seq)["run"]["provenance"] == "Simulated"
    save(tmp_path / "run.fdt", timeline)
    assert split_runs(load(tmp_path / "run.fdt"))[0].provenance == "Simulated"


def test_a_step_takes_what_the_model_says():
    """Guards the clock: with a step in flight the device is busy without a gap, and time is the sum of its steps."""
    for depth in (0, 1):
        run = simulate([Item([1] * 8, 20, 20)], replace(SMALL, steps_in_flight=depth), MODEL)
        cost = MODEL.cost
        prefill = cost.base + cost.prefill_base + 8 * cost.per_token + 36 * cost.per_pair
        decodes = sum(cost.base + cost.per_row + cost.per_context * context for context in range(9, 28))
        assert summary(run)["duration_s"] == pytest.approx(prefill + decodes, rel=1e-6)


def test_the_fit_finds_the_coefficients_of_a_simulated_run():
    """Guards the regression: on a run whose step times are known it must return them, and an error of nought."""
    model = fit(simulate(items(3, 200), replace(SMALL, pool_blocks=400, token_budget=200), MODEL))
    assert model.cost.per_row == pytest.approx(1e-4, rel=0.02) and model.cost.base == pytest.approx(1e-3, rel=0.02)
    assert model.cost.per_token == pytest.approx(1e-5, rel=0.05)
    assert abs(model.error.total) < 0.01 and model.error.median < 0.01


def test_a_run_without_steps_cannot_be_fitted():
    """Guards the message: a recording of an idle engine must be refused in one line."""
    with pytest.raises(ValueError, match="nothing to fit"):
        fit([])


def test_closed_loop_keeps_as_many_under_way():
    """Guards the closed loop: never more than asked for, and no less while any is left."""
    many = [Item([1] * 8, 10, 10) for _ in range(12)]
    run = simulate(many, replace(SMALL, max_num_seqs=8), MODEL, concurrency=3)
    sizes = [len(step["decodes"]) + len(step["chunks"]) for step in schedule(run)]
    assert max(sizes) == 3 and sum(sizes) == 12 * 10 and sizes.count(3) == 40


def test_a_hundred_arrivals_take_their_time():
    """Guards arrivals on a virtual clock: idle time passes, and is not spun through step by step."""
    workload = paced(lengths.race(100, 1.0, 0, 50), 2.0, 1.0)
    figures = simulate_summary(workload.items, replace(SMALL, pool_blocks=200), MODEL)
    assert figures["completed"] == 100 and figures["duration_s"] > 30


def test_the_measured_engine_is_described(loaded):
    """Guards the whole way on a real worker: fit, predict three others, compare. (How well, a quiet machine says.)"""
    found = check_simulator(loaded.new_engine, 64, 512, requests=4, repeats=1)
    assert len(found["workloads"]) == 4 and isinstance(found["within_goal"], bool)
    assert all(one["output_throughput"]["simulated"] > 0 for one in found["workloads"].values())


def test_goals_are_two_sided():
    """Guards the verdict: a prediction that is too slow misses as much as one that is too fast."""
    good, bad = {"error": -0.09}, {"error": -0.11}
    assert within_goal([{"output_throughput": good, "p99_ttft_ms": {"error": 0.19}}])
    assert not within_goal([{"output_throughput": bad, "p99_ttft_ms": {"error": 0.0}}])
    assert compare({"x": 1} | dict.fromkeys(("median_ttft_ms", "p99_ttft_ms"), 2.0) | SPEEDS, ONES)["p99_ttft_ms"] == {
        "measured": 2.0,
        "simulated": 1.0,
        "error": -0.5,
    }


SPEEDS = dict.fromkeys(("output_throughput", "median_itl_ms", "p99_itl_ms"), 1.0)
ONES = SPEEDS | dict.fromkeys(("median_ttft_ms", "p99_ttft_ms"), 1.0)


# ---- questions about a run


@pytest.fixture(scope="module")
def tight():
    """A run that preempts."""
    return simulate(items(4), replace(SMALL, pool_blocks=24), MODEL)


def test_the_same_setting_gives_the_same_run(tight):
    """Guards the baseline: without a change nothing may differ, in schedule or in figures."""
    found = what_if(tight, {}, MODEL)
    assert found.first_difference is None and found.summaries["before"] == found.summaries["after"]
    assert found.measured["preemptions"] == found.summaries["before"]["preemptions"] > 0


def test_a_larger_pool_preempts_less(tight):
    """Guards the question of the strip: the pool grows, preemptions go, and the first different step is named."""
    found = what_if(tight, dict([parse_change("pool_blocks=+100%", SMALL)]), MODEL)
    assert found.summaries["after"]["preemptions"] < found.summaries["before"]["preemptions"]
    step = found.first_difference.step
    assert schedule(found.timelines["before"])[: step - 1] == schedule(found.timelines["after"])[: step - 1]
    assert found.first_difference.before != found.first_difference.after
    assert found.provenance == "Simulated" == found.timelines["after"].provenance


def test_another_policy_does_the_same_work(tight):
    """Guards comparability: every request of the run is asked again, and gets as many tokens as it got."""
    found = what_if(tight, {"capacity": "guaranteed-no-evict"}, MODEL)
    assert found.summaries["after"]["preemptions"] == 0
    outputs = [sum(item.output_length for item in asked(run).items) for run in found.timelines.values()]
    assert outputs[0] == outputs[1] == sum(item.output_length for item in items(4))


def test_answers_are_replayed_so_that_prefix_hits_on_them_stay(loaded):
    """Guards sessions: the second turn continues the first answer; with other tokens its hits would vanish."""
    sink = ListSink()
    engine = loaded.new_engine({"block_size": 16}, (sink,))
    first = drive(engine, [Item(list(range(20)), 30, 30)]).outputs[0]
    second = drive(engine, [Item([*range(20), *first, 7], 4, 4)])
    (timeline,) = split_runs(sink.records)
    found = what_if(timeline, {})
    assert second.cached_tokens == found.summaries["after"]["cached_tokens"] == 48


def test_a_live_run_counts_who_is_unfinished():
    """Guards a question in mid-run: who has no end yet is taken at the declared length, and counted."""
    whole = list(simulate(items(5), SMALL, MODEL))
    steps = [record.seq for record in whole if isinstance(record.event, Step)]
    (half,) = split_runs(record for record in whole if record.seq < steps[len(steps) // 2])
    found = what_if(half, {"max_num_seqs": 3}, MODEL)
    assert found.unfinished > 0 and found.summaries["after"]["completed"] == len(asked(half).items)


def test_the_question_can_be_put_to_a_real_engine(loaded):
    """Guards the other way to answer: both sides measured, on the engine given."""
    sink = ListSink()
    drive(loaded.new_engine({}, (sink,)), [Item([5] * 20, 6, 6) for _ in range(6)])
    (timeline,) = split_runs(sink.records)
    found = what_if(timeline, {"max_num_seqs": 2}, make_engine=loaded.new_engine)
    assert found.provenance == "Measured" and found.model is None and found.first_difference.step == 1
    assert found.to_dict()["after"]["completed"] == 6


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("pool=3", "SETTING=VALUE with one of pool_blocks"),
        ("pool_blocks", "SETTING=VALUE"),
        ("pool_blocks=many", "a value such as 40, or a change such as"),
        ("prefix_cache=perhaps", "a value such as True"),
    ],
)
def test_a_change_that_means_nothing_is_named(text, words):
    """Guards the command line: field and allowed values in one line."""
    with pytest.raises(InvalidRequest, match=words):
        parse_change(text, SMALL)


def test_changes_are_read_and_checked():
    """Guards the forms of a change, and that the result is a valid configuration."""
    texts = ("pool_blocks=+10%", "max-num-seqs=-50%", "watermark=0.1", "prefix_cache=off", "preferred_sizes=2,6")
    assert [parse_change(text, SMALL)[1] for text in texts] == [44, 3, 0.1, False, (2, 6)]
    with pytest.raises(InvalidRequest, match="capacity: one of"):
        changed(SMALL, {"capacity": "none"})


def test_two_schedules_part_where_one_ends():
    """Guards the end of the comparison: a run that is a beginning of the other differs at its end."""
    short, long = (simulate([Item([1] * 4, n, n)], SMALL, MODEL) for n in (3, 5))
    found = first_difference(short, long)
    assert (found.step, found.before, found.after["decodes"]) == (4, None, [0])
