"""The factors of the gain: algebra on made-up runs, and the fold that reads them out of records."""

import math

import pytest

from engine.trace.events import Admit, Apply, Cause, Leave, Record, Step
from engine.trace.gain import FACTORS, Totals, bound, factors, totals
from engine.trace.step_cost import StepCost, fit_cost
from engine.trace.step_facts import StepFacts, step_facts


def records(*events):
    """Records of one run, one millisecond apart; a Step begins the next step."""
    made, step = [], 0
    for seq, event in enumerate(events):
        step += isinstance(event, Step)
        made.append(Record(seq, seq * 1_000_000, step, event))
    return made


def a_step(**lists):
    return Step(budget=64, used=0, free=0, reclaimable=0, waiting=0, **lists)


PADDED_PAIR = records(
    Admit(0, 0, 0, 0, 0, []),
    Admit(1, 1, 0, 0, 0, []),
    a_step(chunk_rows=[0, 1], chunk_starts=[0, 0], chunk_tokens=[5, 3], chunk_lasts=[1, 1]),
    Apply(1, [0, 1], [7, 7]),
    a_step(joined=[0, 1]),
    Apply(2, [0, 1], [7, 7]),
    Leave(1, 1, 1, Cause.LENGTH, keeps_row=1),
    a_step(),
    Apply(3, [0], [7], [1]),
    Leave(0, 0, 1, Cause.LENGTH),
    Leave(1, 1, 2, Cause.GROUP_END),
)


def test_fold_counts_useful_and_padded_rows():
    """Guards the padded row: it costs a row and its context grows, but its token is not useful."""
    prefill, both, padded = step_facts(PADDED_PAIR)
    assert (prefill.prefill_tokens, prefill.chunks, prefill.decode_rows) == (8, 2, 0)
    assert (both.decode_rows, both.useful, both.context) == (2, 2, 6 + 4)
    assert (padded.decode_rows, padded.useful, padded.context) == (2, 1, 7 + 5)


def test_fold_gives_back_rows():
    """Guards the end of a group: a row that left must not decode on, a new holder starts at its own length."""
    more = (Admit(2, 0, 0, 0, 16, [1]), a_step(chunk_rows=[0], chunk_starts=[16], chunk_tokens=[2], chunk_lasts=[1]))
    extra = [
        Record(50 + seq, (50 + seq) * 1_000_000, 4 + (seq > 2), event)
        for seq, event in enumerate((*more, Apply(4, [0], [1]), a_step(joined=[0]), Apply(5, [0], [1])))
    ]
    steps = step_facts([*PADDED_PAIR, *extra])
    assert (steps[-1].decode_rows, steps[-1].context) == (1, 19)


def test_a_step_has_the_device_from_the_end_of_the_one_before():
    """Guards overlap: a launch before the previous results must not count that time twice."""
    overlapped = records(
        Admit(0, 0, 0, 0, 0, []),
        a_step(chunk_rows=[0], chunk_starts=[0], chunk_tokens=[4], chunk_lasts=[1]),
        a_step(joined=[0]),
        Apply(1, [0], [1]),
        Apply(2, [0], [1]),
    )
    first, second = step_facts(overlapped)
    assert (first.seconds, second.seconds) == (0.002, 0.001)
    assert second.start_ns == first.end_ns


def test_factors_telescope_to_the_ratio_of_wall_times():
    """Guards the identity: whatever the numbers, the product is T_s / T_f exactly."""
    static = Totals(useful=400, decode_steps=120, decode_s=1.3, prefill_s=0.2, wall_s=1.9)
    in_flight = Totals(useful=400, decode_steps=61, decode_s=0.8, prefill_s=0.25, wall_s=1.1)
    values = factors(static, in_flight, rows=8)
    assert values.keys() == FACTORS.keys()
    assert math.prod(values.values()) == pytest.approx(1.9 / 1.1, rel=1e-12)
    assert values["ideal"] == 120 / 50 and values["drain"] == 50 / 61


def test_factors_refuse_runs_of_different_work():
    """Guards a silent mistake: fewer useful row-steps would look like a gain."""
    run = Totals(10, 5, 1.0, 0.1, 1.2)
    with pytest.raises(ValueError, match="different work"):
        factors(run, Totals(9, 5, 1.0, 0.1, 1.2), 2)
    with pytest.raises(ValueError, match="without decode steps"):
        factors(run, Totals(10, 0, 0.0, 1.0, 1.2), 2)


def test_fit_recovers_the_cost_of_a_step():
    """Guards the regression: base, rows, context and prefill come back, from mixed steps too."""
    true = StepCost(2e-3, 3e-4, 2e-6, 4e-4, 5e-6)
    steps = []
    for index in range(60):
        facts = StepFacts(index, 0, decode_rows=index % 8, context=(index * 37) % 900)
        if index % 8 == 0 or index % 5 == 0:
            facts.chunks, facts.prefill_tokens = 1, 10 + 7 * index
        facts.context *= facts.decode_rows > 0
        facts.end_ns = round(true.total(facts) * 1e9)
        steps.append(facts)
    fitted = fit_cost(steps)
    for name in StepCost.__slots__:
        assert getattr(fitted, name) == pytest.approx(getattr(true, name), rel=1e-3)


def test_fit_shrugs_off_disturbed_steps():
    """Guards the predictions on a busy machine: one step in ten that took 20 times as long must not raise the cost."""
    true = StepCost(2e-3, 3e-4, 2e-6)
    steps = [StepFacts(i, 0, decode_rows=1 + i % 8, context=50 * (i % 8) + i) for i in range(200)]
    for index, facts in enumerate(steps):
        facts.end_ns = round(true.total(facts) * 1e9 * (20 if index % 10 == 3 else 1))
    fitted = fit_cost(steps)
    assert fitted.base == pytest.approx(true.base, rel=0.02) and fitted.per_row == pytest.approx(true.per_row, rel=0.02)


def test_fit_has_no_negative_cost():
    """Guards noise: a larger batch that happened to run faster must not predict negative time."""
    steps = [StepFacts(i, 0, 10_000_000 - 100_000 * i, decode_rows=1 + i % 4, context=10 * i) for i in range(20)]
    cost = fit_cost(steps)
    assert min(cost.base, cost.per_row, cost.per_context) >= 0 and cost.base > 0
    assert fit_cost([]) == StepCost(0, 0, 0, 0, 0)


def test_mixed_step_is_divided_by_the_fitted_decode_time():
    """Guards the prefill factor: the decode share of a mixed step is the fitted time, never more than the step."""
    cost = StepCost(1e-3, 1e-3, 0.0)
    mixed = StepFacts(1, 0, 5_000_000, decode_rows=2, useful=2, prefill_tokens=9, chunks=1)
    short = StepFacts(2, 5_000_000, 6_000_000, decode_rows=2, useful=2, prefill_tokens=1, chunks=1)
    pure = StepFacts(3, 6_000_000, 8_000_000, decode_rows=2, useful=2)
    run = totals([mixed, short, pure], 0.01, cost)
    assert (run.useful, run.decode_steps, run.wall_s) == (6, 3, 0.01)
    assert run.decode_s == pytest.approx(3e-3 + 1e-3 + 2e-3) and run.prefill_s == pytest.approx(2e-3)


@pytest.mark.parametrize(
    ("lengths", "expected"), [([5] * 8, 1.0), ([1, 9, 2, 4], 13 * 2 / 16), ([8, 2, 6], 14 * 2 / 16)]
)
def test_bound_is_longest_over_mean_of_the_actual_groups(lengths, expected):
    """Guards the bound: groups in order, a part-filled last group wastes its empty rows too."""
    assert bound(lengths, rows=2) == pytest.approx(expected)
