"""Workloads are exact, reproducible functions of their seed."""

import statistics
from random import Random

import pytest

from engine.errors import InvalidRequest
from engine.workload import lengths
from engine.workload.arrivals import gamma_arrivals
from engine.workload.items import Item, Workload, fit, quantiles, work_done
from engine.workload.named import BY_NAME, by_name


def test_w1_is_the_public_workload_to_the_token():
    """Guards the draw order: any other order gives other totals, and no published figure could stand beside ours."""
    described = lengths.w1().describe()
    assert (described["input_tokens"], described["output_tokens"]) == (142_827, 133_966)
    again = Random(0)
    first = [again.randint(0, 10_000) for _ in range(again.randint(100, 1024))]
    assert lengths.w1().items[0].prompt_ids == first


def test_w1_samples_and_hides_nothing():
    """Guards the declared limit: the scheduler must see the output length, and each request its own seed."""
    item = lengths.w1(4).items[3]
    params = item.sampling()
    assert params.temperature == 0.6 and params.ignore_eos and params.seed == 3
    assert params.forced_output_length == params.max_tokens == item.max_tokens


@pytest.mark.parametrize("spread", [0.0, 0.5, 1.0])
def test_race_lengths_scale_with_the_spread(spread):
    """Guards the null race: at spread 0 all outputs are equal; at 1 they are exponential, cut to 4..160."""
    items = lengths.race(2000, spread, seed=3, vocab_size=100).items
    outputs = [item.output_length for item in items]
    assert 48 - 44 * spread <= min(outputs) and max(outputs) <= 48 + 112 * spread
    assert abs(statistics.mean(outputs) - 48) < 3
    assert {len(item.prompt_ids) for item in items} == set(range(16, 65))
    assert all(0 <= token < 100 for item in items for token in item.prompt_ids)


def test_race_is_greedy_and_reproducible():
    """Guards comparability: sampling noise or another draw per run would make tokens differ for no reason."""
    first, again = (lengths.race(8, 1.0, 1, 50).items for _ in range(2))
    assert first == again and first != lengths.race(8, 1.0, 2, 50).items
    assert all(item.sampling().temperature == 0 for item in first)


@pytest.mark.parametrize("table", [*lengths.AZURE_CODE, *lengths.AZURE_CHAT, *lengths.MOONCAKE, *lengths.SHAREGPT])
def test_quantile_tables_are_reproduced(table):
    """Guards the inverse transform (acceptance of performance.md 3.2: p10, p50, p90 and p99 within 3 %)."""
    drawn = [lengths.draw(table, Level((index + 0.5) / 10_000)) for index in range(10_000)]
    assert drawn == sorted(drawn)
    for level in (10, 50, 90, 99):
        assert drawn[level * 100] == pytest.approx(table[lengths.LEVELS.index(level)], rel=0.03, abs=1)
    assert min(table) <= drawn[0] and drawn[-1] <= max(table)


class Level(Random):
    """A generator that always draws one level, so that the table is walked evenly instead of at random."""

    def __init__(self, level):
        super().__init__(0)
        self.level = level

    def random(self):
        return self.level


@pytest.mark.parametrize("cv", [0.0, 1.0, 4.0])
def test_arrivals_have_the_rate_and_the_burstiness(cv):
    """Guards the Gamma parameters: shape and scale swapped would keep the mean and lose the bursts."""
    times = gamma_arrivals(40_000, rate=5.0, cv=cv, seed=1)
    gaps = [late - early for early, late in zip([0.0, *times], times)]
    assert statistics.mean(gaps) == pytest.approx(0.2, rel=0.1)
    assert statistics.pstdev(gaps) / statistics.mean(gaps) == pytest.approx(cv, rel=0.1, abs=1e-9)


def test_unknown_workload_names_the_known_ones():
    """Guards the error: one line with field and allowed values."""
    with pytest.raises(InvalidRequest, match="workload: one of W1, 1000x1000, azure-code"):
        by_name("w2", None, 0)


@pytest.mark.parametrize("name", BY_NAME)
def test_workloads_by_name_have_the_number_asked_for(name):
    """Guards the table of names: each takes a count and a seed."""
    assert len(by_name(name, 5, 0).items) == 5


def test_fit_says_what_it_cut():
    """Guards honesty: a workload cut to a small model is another workload, and the report must say so."""
    made = Workload("x", [Item([1, 2, 900], 4, 4), Item([5], 2, 2)], 0)
    small = fit(made, max_model_len=6, vocab_size=100)
    assert [item.prompt_ids for item in small.items] == [[1, 2], [5]]
    assert len(small.notes) == 2
    assert fit(made, max_model_len=7, vocab_size=1000) is made


def test_work_done_tells_runs_apart():
    """Guards the check that all schedulers did the same work: counts and lengths, not only totals."""
    items = [Item([1], 2), Item([1, 2], 3)]
    assert work_done(items, [[0, 0], [0]]) == work_done(items, [[9, 9], [9]])
    assert work_done(items, [[0, 0], [0]]) != work_done(items, [[0], [0, 0]])


def test_quantiles_of_one_value():
    """Guards the edge: a single sample has all ranks."""
    assert quantiles([5.0]) == {"min": 5.0, "p50": 5.0, "p90": 5.0, "p99": 5.0, "max": 5.0, "mean": 5.0}
