"""The race on a real engine, and the prediction of its factors by the real scheduler on a virtual clock."""

import json
import math
from dataclasses import replace

import pytest

from engine.config import SchedulingConfig
from engine.errors import InvalidRequest
from engine.trace.gain import FACTORS
from engine.trace.step_cost import StepCost
from engine.workload import lengths
from engine.workload.items import Item
from engine.workload.race import SCHEDULERS, first_divergence, race
from engine.workload.race_spec import RaceSpec, run_race
from engine.workload.simulate import simulate_steps

COST = StepCost(1e-3, 1e-4, 1e-6, 2e-4, 1e-5)
ROOM = SchedulingConfig(pool_blocks=400, max_num_seqs=4, token_budget=512, max_model_len=256, prefix_cache=False)


@pytest.fixture(scope="module")
def results(loaded):
    return run_race(loaded, RaceSpec(requests=12, rows=4, seed=1, repeats=1))


def test_race_has_the_documented_keys_and_is_json(results):
    """Guards the interface of `bench race --json`: these six keys, and nothing that JSON cannot hold (NaN)."""
    keys = {"schedulers", "gain", "bound", "factors", "predicted_factors", "tokens_identical"}
    assert results.keys() == keys and tuple(results["schedulers"]) == tuple(SCHEDULERS)
    assert json.loads(json.dumps(results, allow_nan=False)) == results
    for run in results["schedulers"].values():
        assert {"output_throughput", "median_ttft_ms", "p99_itl_ms", "warm_up_s", "lanes", "requests"} <= run.keys()


def test_all_schedulers_produce_the_same_tokens(results):
    """Guards the claim that batching changes when, never what (greedy, fp32)."""
    assert results["tokens_identical"]
    assert all(run["first_divergence"] is None for run in results["schedulers"].values())
    totals = {run["total_output_tokens"] for run in results["schedulers"].values()}
    assert totals == {sum(item.output_length for item in lengths.race(12, 1.0, 1, 512).items)}


def test_gain_is_the_ratio_of_throughputs_and_the_product_of_its_factors(results):
    """Guards the arithmetic on the page: three ways to the same number."""
    runs = results["schedulers"]
    ratio = runs["in_flight"]["output_throughput"] / runs["static"]["output_throughput"]
    assert results["gain"] == pytest.approx(ratio)
    assert math.prod(results["factors"].values()) == pytest.approx(ratio)


def test_step_counts_are_predicted_exactly(results):
    """Guards the simulation: lengths and scheduler alone tell the step counts, so ideal and drain must match."""
    for name in ("ideal", "drain"):
        assert results["factors"][name] == pytest.approx(results["predicted_factors"][name])
    assert results["factors"].keys() == results["predicted_factors"].keys() == FACTORS.keys()


def test_only_padding_schedulers_waste_rows(results):
    """Guards the policies: padded rows in static and dynamic, idle rows in shrinking, no padded row in-flight."""
    steps = {name: run["row_steps"] for name, run in results["schedulers"].items()}
    assert steps["static"]["padded"] == steps["dynamic"]["padded"] > 0
    assert steps["static_shrinking"]["padded"] == steps["in_flight"]["padded"] == 0
    assert steps["static_shrinking"]["idle"] > steps["in_flight"]["idle"]


def test_equal_lengths_leave_nothing_to_gain():
    """Guards the null result: at spread 0 all factors but noise are 1, by construction of the steps."""
    items = lengths.race(16, 0.0, 1, 512).items
    static, in_flight = (simulate_steps(items, replace(ROOM, batching=name), COST) for name in ("static", "in-flight"))
    assert static[1] == pytest.approx(in_flight[1])
    assert len(static[0]) == len(in_flight[0]) == 4 * 48


def test_simulation_counts_static_steps_from_the_lengths():
    """Guards the definition: a group of B takes its longest answer in steps, the first of them the prefill."""
    items = [Item([1] * 8, length, length) for length in (3, 9, 2, 5, 4, 4)]
    steps, _ = simulate_steps(items, replace(ROOM, batching="static"), COST)
    assert [facts.decode_rows for facts in steps] == [0, *[4] * 8, 0, *[2] * 3]
    assert sum(facts.useful for facts in steps) == sum(item.output_length - 1 for item in items)


def test_simulated_time_jumps_to_the_next_arrival():
    """Guards the virtual clock: an idle engine must not spin, and waiting counts as wall time."""
    items = [Item([1] * 4, 2, 2, arrival_s=1.0), Item([1] * 4, 2, 2, arrival_s=4.0)]
    steps, wall_s = simulate_steps(items, ROOM, COST)
    assert len(steps) == 4 and 3.0 < wall_s < 3.1  # from the first arrival on


def test_dynamic_waits_for_its_window_in_simulated_time():
    """Guards the wake-up time of a closed gate: without it the simulation (and the engine) would never go on."""
    _, wall_s = simulate_steps([Item([1] * 4, 2, 2)], replace(ROOM, batching="dynamic", window_ms=500.0), COST)
    assert 0.5 <= wall_s < 0.6


def test_race_with_arrivals_idles_until_the_last_request_came(loaded):
    """Guards arrival times: requests must not be submitted before their time."""
    spec = RaceSpec(requests=3, rows=4, spread=0.0, repeats=1, arrival_rate=10.0, schedulers=("in_flight",))
    run = run_race(loaded, spec)
    times = [item.arrival_s for item in spec.workload(512).items]
    assert run["gain"] is None and run["schedulers"]["in_flight"]["duration_s"] >= 0.9 * (max(times) - min(times))


@pytest.mark.parametrize(
    ("wrong", "words"),
    [({"rows": 0}, "rows"), ({"spread": 1.5}, "length_spread: 0 to 1"), ({"schedulers": ("x",)}, "some of static")],
)
def test_a_wrong_spec_names_the_field(wrong, words):
    """Guards the errors of Arena and command line: field and allowed values, before any work."""
    with pytest.raises(InvalidRequest, match=words):
        RaceSpec(**wrong).validate()


def test_runs_that_did_different_work_are_not_compared(loaded):
    """Guards against a false gain: a scheduler that cut an answer short must not win."""
    shortened = iter((5, 5, 4, 5))

    def cheat(overrides, sinks):
        engine = loaded.new_engine(overrides, sinks)
        submit, tokens = engine.submit, next(shortened)
        engine.submit = lambda ids, params: submit(ids, replace(params, forced_output_length=tokens))
        return engine

    with pytest.raises(RuntimeError, match="different lengths"):
        race(cheat, [Item([1, 2], 5, 5)], ("static", "in_flight"), repeats=1)


def test_first_divergence_names_request_and_position():
    """Guards the report on low-precision machines."""
    assert first_divergence([[1, 2], [3, 4]], [[1, 2], [3, 5]]) == {"request": 1, "position": 1}
    assert first_divergence([[1, 2]], [[1]]) == {"request": 0, "position": 1}
    assert first_divergence([[1]], [[1]]) is None
