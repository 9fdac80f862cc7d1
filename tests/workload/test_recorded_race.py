"""A race read back from its recording, its counters over time, and what it comes to."""

from pathlib import Path

import pytest

from engine.config import EngineConfig, SchedulingConfig, WorkerConfig
from engine.loading import load_model
from engine.trace.files import FileSink, load, save
from engine.workload.race_spec import RaceSpec, run_race
from engine.workload.recorded import recorded_race, trimmed
from engine.workload.verdict import miss, shares, verdict

SPEC = RaceSpec(requests=10, rows=2, spread=1.0, seed=3, repeats=2)


@pytest.fixture(scope="module")
def race(tmp_path_factory: pytest.TempPathFactory):
    """(results, path of the recording) of a small race of the tiny model."""
    path = tmp_path_factory.mktemp("race") / "race.fdtrace"
    scheduling = SchedulingConfig(max_model_len=256)
    model = load_model(EngineConfig(scheduling, WorkerConfig(random_weights="tiny", device="cpu")))
    sink = FileSink(path)
    results = run_race(model, SPEC, sinks=[sink])
    sink.close()
    model.close()
    return results, path


def test_a_recording_gives_the_same_results(race) -> None:
    """Guards the promise that a recorded race shows what was measured, not something recomputed in another way."""
    results, path = race
    again, info = recorded_race(path)
    for name in ("gain", "bound", "factors", "predicted_factors", "tokens_identical"):
        assert again[name] == pytest.approx(results[name]), name
    assert info["device"] and info["versions"] and info["date"]
    for name, run in results["schedulers"].items():
        unlike = {key for key in run if again["schedulers"][name][key] != run[key]}
        assert unlike <= {"warm_up_s"}, name


def test_the_last_tick_is_the_summary(race) -> None:
    """Guards against a replay that ends with other numbers than the page shows."""
    for run in race[0]["schedulers"].values():
        t_s, tokens, useful, rows, finished = run["ticks"][-1]
        assert tokens == run["total_output_tokens"] and finished == run["completed"]
        assert t_s == pytest.approx(run["duration_s"], abs=1e-6)
        assert useful / rows == pytest.approx(shares(run)["useful"])
        assert [tick[0] for tick in run["ticks"]] == sorted(tick[0] for tick in run["ticks"])


def test_other_files_are_refused(race, tmp_path: Path) -> None:
    """Guards against an Arena that shows half a race, or a Theatre recording as one."""
    empty = tmp_path / "empty.fdtrace"
    save(empty, load(race[1])[:0])
    with pytest.raises(ValueError, match="no run"):
        recorded_race(empty)


def test_the_verdict_of_equal_lengths_is_null(race) -> None:
    """Guards against celebrating noise: with nothing to gain the verdict says so, whatever was measured."""
    found = verdict(race[0])
    assert not found.is_null and found.low <= found.gain <= found.high
    null = verdict(race[0] | {"bound": 1.0})
    assert null.is_null and null.kept is None
    assert miss(2.0, 1.0) == pytest.approx(miss(0.5, 1.0)) == pytest.approx(2.0)


def test_a_trimmed_recording_keeps_result_and_range(race, tmp_path: Path) -> None:
    """Guards the recording in the tree: small, and still with the measured gain and its range over all repeats."""
    small = tmp_path / "small.fdtrace"
    save(small, trimmed(load(race[1])))
    full, short = verdict(race[0]), verdict(recorded_race(small)[0])
    assert (short.gain, short.low, short.high) == pytest.approx((full.gain, full.low, full.high))
