"""Studies and contestants on the tiny model: the settings really differ, and in what they are meant to differ."""

import math

import pytest

from engine.config import SchedulingConfig
from engine.errors import InvalidRequest
from engine.workload import lengths
from engine.workload.contestants import SETTINGS, contestants, race_settings
from engine.workload.items import Item
from engine.workload.prefixes import prefix_ratio
from engine.workload.race_spec import RaceSpec
from engine.workload.shrink import shrunk
from engine.workload.studies import Goal, Setting, Study, peak_blocks, run_study
from engine.workload.study_cases import STUDIES

GPU = SchedulingConfig(max_num_seqs=256, token_budget=8192, max_model_len=33_000, pool_blocks=60_000)
CASES = [(group, name) for group, cases in STUDIES.items() for name in cases]


def made(group: str, name: str, share: float = 0.25) -> Study:
    return STUDIES[group][name](GPU, 150_000, share)


@pytest.mark.parametrize(("group", "name"), CASES)
def test_every_request_of_a_study_fits_both_settings(group, name):
    """Guards the sizes: a request that a setting refuses would make the comparison one of different work."""
    study = made(group, name)
    for setting in study.settings:
        config = SchedulingConfig(**(GPU.__dict__ | dict(setting.overrides))).validate()
        assert study.workload.longest <= config.max_model_len
        assert math.ceil(study.workload.longest / config.block_size) <= config.pool_blocks
        longest = max(len(item.prompt_ids) for item in study.workload.items)
        assert config.chunked_prefill or longest + len(study.workload.items) <= config.token_budget


def test_pressure_has_the_pools_that_its_names_say():
    """Guards the demand: half of what W1 would hold at once; blocks for 16 of 32 requests of 4,608 tokens."""
    demand, rows = made("pressure", "half-the-demand"), made("pressure", "half-the-rows", 1.0)
    peak = peak_blocks(demand.workload.items, GPU)
    assert demand.settings[0].overrides["pool_blocks"] == peak // 2 == demand.settings[1].overrides["pool_blocks"]
    assert rows.settings[0].overrides["pool_blocks"] == 16 * 4608 // 16 and rows.concurrency == 32
    declared = made("pressure", "declared-too-much").workload.items
    assert {item.max_tokens for item in declared} == {1024} and max(item.output_length for item in declared) <= 1024


def test_prefix_studies_share_what_they_say():
    """Guards the hit rates: nothing at all, and nine tenths of every prompt."""
    assert prefix_ratio(made("prefix", "no-hits").workload.items) == 0
    items = made("prefix", "nine-in-ten-hits", 1.0).workload.items
    assert prefix_ratio(items) == pytest.approx(0.9, abs=0.02)


def test_peak_demand_is_that_of_the_lengths():
    """Guards the simulation of the demand: three requests that grow together hold the most at the last step of the
    shortest."""
    items = [Item([1] * 16, tokens, tokens) for tokens in (17, 17, 40)]
    assert peak_blocks(items, SchedulingConfig(token_budget=256)) == 3 * 2
    assert peak_blocks(items, SchedulingConfig(token_budget=256), concurrency=1) == 4  # 16 + 39 tokens, the last alone


def test_lengths_are_divided_by_one_number():
    """Guards the shape of a workload on a small model: cut lengths would be another distribution; the name says so."""
    small = shrunk(lengths.fixed(3, 0, 100, 50), 40)
    assert small.name == "100x50, lengths / 4"
    assert {(len(item.prompt_ids), item.output_length) for item in small.items} == {(25, 12)}
    assert shrunk(small, 40) is small


def test_a_study_compares_and_judges(loaded):
    """Guards the arithmetic of a study: ratio of the first setting over the second, and each goal's verdict."""
    workload = lengths.fixed(6, 0, 20, 6)
    workload = workload.__class__("six", [Item([t % 500 for t in i.prompt_ids], 6, 6) for i in workload.items], 0)
    goals = (Goal("total_output_tokens", at_least=1.0, at_most=1.0), Goal("duration_s", at_most=0.0))
    study = Study("x", workload, (Setting("two", {"max_num_seqs": 2}), Setting("four", {})), goals)
    found = run_study(loaded.new_engine, study, repeats=1)
    two, four = (found["settings"][name] for name in ("two", "four"))
    assert found["ratios"]["duration_s"] == pytest.approx(two["duration_s"] / four["duration_s"])
    assert [goal["holds"] for goal in found["goals"]] == [True, False]
    assert two["row_steps"]["idle"] < four["row_steps"]["idle"] + 1 and found["workload"]["requests"] == 6


def test_contestants_do_the_same_work_in_their_own_ways(loaded):
    """Guards the other contestants of a race: same tokens, preemptions under one policy alone, chunks that cut."""
    found = race_settings(loaded, RaceSpec(requests=12, rows=4, repeats=1, seed=1), SETTINGS)
    assert all(run["first_divergence"] is None for run in found.values())
    assert found["max-utilization"]["preemptions"] > 0 == found["guaranteed-no-evict"]["preemptions"]
    steps = {name: run["row_steps"]["prefill"] for name, run in found.items()}
    assert steps["chunked"] > steps["whole"] == 12


def test_contestants_are_known_by_name():
    """Guards the names: each kind is told apart, and a wrong one is answered with those there are."""
    found = contestants(["whole", "transformers", "http://localhost:8000"])
    assert (found.settings, found.transformers, found.urls) == (("whole",), True, ("http://localhost:8000",))
    with pytest.raises(InvalidRequest, match="contestants: some of max-utilization"):
        contestants(["wholesale"])
