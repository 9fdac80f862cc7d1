"""The measurements of the auditor on a CPU, made small: each runs for real, and its experiments understand it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from lessons.audit import registry
from lessons.audit.measure import pools, races, steps
from lessons.audit.measure.catalogue import ALL, measure
from lessons.audit.registry import Source, all_experiments

ROOT = Path(__file__).resolve().parents[2]
ANYWHERE = [name for name, each in ALL.items() if not each.cuda]


@pytest.fixture(scope="module")
def measured() -> dict[str, Source]:
    """Every measurement that needs no GPU, with a few requests each."""
    with pytest.MonkeyPatch.context() as small:
        small.setattr(races, "REQUESTS", 4)
        small.setattr(races, "_repeats", lambda device: 1)
        small.setattr(pools, "OUTPUT", 40)
        small.setattr(pools, "POOLS", (0.5, 0.7))
        small.setattr(pools, "SIZES", (8, 128))
        small.setattr(steps, "BUDGETS", (32, 512))
        small.setattr(steps, "ANSWER", 40)
        found = {name: measure(name, "cpu", lambda what, share: None) for name in ANYWHERE}
    assert all(document["meta"]["device"] and document["meta"]["date"] for document in found.values())
    json.dumps(found, allow_nan=False)
    return {name: Source(document["results"], "Measured", "this CPU") for name, document in found.items()}


def test_every_experiment_understands_the_real_documents(measured: dict[str, Source]) -> None:
    """Guards the fields between a measurement and the experiments that read it."""
    ran = {name: registry.run(name, measured) for name, each in all_experiments().items() if each.needs}
    found = {name: finding for name, finding in ran.items() if finding is not None}
    assert len(found) >= 44 and all(finding.provenance == "Measured" for finding in found.values())
    assert found["weight_map"].outcome == "holds" and found["sampling_mix"].outcome == "holds"
    assert found["tokens_identical"].outcome == "holds" and found["static_padding"].outcome == "holds"


def test_pressure_preempts_and_keeps_the_answers(measured: dict[str, Source]) -> None:
    """Guards the run under pressure: without a preemption it would show nothing, and a wrong answer would be a bug."""
    runs = measured["pressure"].document["runs"]
    assert max(run["preemptions"] for run in runs) > 0 and measured["pressure"].document["identical"]
    assert all(run["preemptions"] == 0 for run in runs if run["capacity"] == "guaranteed-no-evict")


def test_a_prefix_hit_is_whole_blocks(measured: dict[str, Source]) -> None:
    """Guards the hit count: seven of eight requests find the shared blocks, and never with the cache off."""
    prefix = measured["prefix"].document
    assert prefix["on"]["cached_tokens"] == 7 * pools.SHARED and prefix["off"]["cached_tokens"] == 0


@pytest.mark.parametrize(
    ("arguments", "words"), [(["nonsense"], "one of race"), (["copies", "--device", "cpu"], "CUDA")]
)
def test_the_command_says_what_is_wrong_in_one_line(arguments: list[str], words: str) -> None:
    """Guards a traceback for a name that is not there, or a GPU that is not there."""
    command = [sys.executable, "-m", "lessons.audit", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and words in done.stderr and len(done.stderr.splitlines()) == 1
