"""What the Kernel Lab counts and computes: bytes, operations, floors, fusion, tiles, source, PTX."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from engine.__main__ import KERNELS
from engine.workload import fusion, kernel_ledger, kernel_source, online_softmax
from engine.workload.kernel_cases import CASES
from engine.workload.kernel_ptx import NOTABLE, cases, counts
from tests.pages.sample_kernels import CEILINGS, sample_run

ROOT = Path(__file__).resolve().parents[2]


def _python(*arguments: str, **variables: str) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"} | variables
    done = subprocess.run(
        [sys.executable, "-m", *arguments], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("kernel", CASES)
def test_the_ledger_counts_what_the_bench_divides_by(kernel: str) -> None:
    """Guards two counts of the same bytes: a case that changes must change here, or its dot stands in a wrong place."""
    for case in CASES[kernel]("cpu"):
        work = kernel_ledger.work(case.kernel, case.shape)
        assert work is not None and work.bytes == case.bytes
        assert not case.flops or work.flops == case.flops


def test_an_unknown_kernel_is_named_not_guessed() -> None:
    """Guards a run of a newer bench: what has no formula is left out of the figures, and said."""
    run = sample_run()
    run["results"].append(run["results"][0] | {"kernel": "teleport"})
    run["results"].append(run["results"][0] | {"shape": "a sphere"})
    assert kernel_ledger.unplaced(run) == ["add_rmsnorm", "teleport"]
    assert len(kernel_ledger.dots(run)) == len(run["results"]) - 2


def test_the_largest_floor_binds() -> None:
    """Guards the three roofs: one small call, one large, one with many operations, each under its own."""
    found = {(dot.kernel, dot.shape): dot for dot in kernel_ledger.dots(sample_run())}
    assert found["add_rmsnorm", "1 x 1024"].binds == "launch"
    assert found["add_rmsnorm", "8192 x 4096"].binds == "bandwidth"
    assert found["prefill", "1 rows x 8192, 16/8 heads"].binds == "compute"
    dot = found["add_rmsnorm", "8192 x 4096"]
    assert dot.of_limit == pytest.approx(8 * 8192 * 4096 / CEILINGS["read_bandwidth"] * 1e6 / dot.us)


def test_a_run_without_a_launch_floor_has_two_roofs() -> None:
    """Guards older recordings: no floor of a launch means none, not a zero that would bind or divide."""
    run = sample_run()
    run["meta"]["config"]["ceilings"] = {name: CEILINGS[name] for name in list(CEILINGS)[:3]}
    assert {dot.binds for dot in kernel_ledger.dots(run)} == {"bandwidth", "compute"}


def test_fusions_predict_what_is_counted_by_hand() -> None:
    """Guards the ledger: 12 : 8 and 10 : 6 bytes, and 19 : 8 heads' worth for 16/8 heads."""
    predicted = {each.kernel: each.predicted for each in fusion.fusions(16, 8)}
    assert predicted == {"add_rmsnorm": 12 / 8, "silu_mul": 10 / 6, "rope_write_kv": 19 / 8}


def test_fused_bytes_are_those_of_the_kernel() -> None:
    """Guards one truth: the bars of the ledger and the dots of the roofline count the same fused kernel."""
    norm, silu, rope = fusion.fusions(16, 8)
    assert fusion.total(norm.fused) * 2 * 256 * 1024 == kernel_ledger.work("add_rmsnorm", "256 x 1024").bytes
    assert fusion.total(silu.fused) * 2 * 256 * 3072 == kernel_ledger.work("silu_mul", "256 x 3072").bytes
    size = fusion.total(rope.fused) * 2 * 256 * 8 * 128
    assert size == kernel_ledger.work("rope_write_kv", "256 tokens, 16/8 heads").bytes


def test_the_share_of_a_step_follows_amdahl() -> None:
    """Guards the share: parts add up, and a run that lacks a shape says that it does not know."""
    run = sample_run()
    parts, known = fusion.layer_us(run), fusion.share(run, "silu_mul")
    assert known.of_layer == pytest.approx(parts["silu_mul"] / sum(parts.values()))
    assert known.slower_without == pytest.approx(1 + known.of_layer * 0.7)
    run["results"] = [entry for entry in run["results"] if not entry["shape"].startswith("256 rows")]
    assert fusion.share(run, "silu_mul") is None


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("keys", online_softmax.TILES)
def test_tiles_end_at_the_softmax_over_all_keys(seed: int, keys: int) -> None:
    """Guards the stepper: a wrong rescale factor shows in the answer, for any tile."""
    given = online_softmax.problem(seed)
    steps = online_softmax.tiles(given, keys)
    assert online_softmax.deviation(online_softmax.answer(steps), given) < 1e-5
    for tile in steps:
        seen = given.scores[:, : tile.end]
        np.testing.assert_allclose(tile.best, seen.max(axis=1))
        np.testing.assert_allclose(tile.total, np.exp2(seen - tile.best[:, None]).sum(axis=1), rtol=1e-5)
        assert ((tile.shrink < 1) == (tile.best > tile.best_before)).all()


def test_the_triton_kernel_agrees_in_the_interpreter() -> None:
    """Guards the claim of the page: the real kernel, on the same numbers and tiles, gives the stepper's answer."""
    output = json.loads(_python("engine.workload.online_softmax", "3", "4", TRITON_INTERPRET="1"))
    assert online_softmax.deviation(output, online_softmax.problem(3)) < 1e-5
    steps = online_softmax.tiles(online_softmax.problem(3), 4)
    np.testing.assert_allclose(output, online_softmax.answer(steps), atol=1e-5)


def test_source_is_cut_whole() -> None:
    """Guards the three parts: nothing of a file is lost or shown twice, and each part holds what its name says."""
    assert set(kernel_source.FILES) == set(KERNELS)
    for kernel in kernel_source.FILES:
        parts = kernel_source.pieces(kernel)
        assert all(parts.values()) and kernel_source.about(kernel)
        lines = [(p.file, n) for found in parts.values() for p in found for n in range(p.first, p.last + 1)]
        assert len(lines) == len(set(lines))
        assert all("@jit" in piece.code for piece in parts["kernel"])
        assert not any("@jit" in piece.code for part in ("reference", "launcher") for piece in parts[part])
        assert "_reference" in parts["reference"][0].code


def test_ptx_is_made_without_a_gpu() -> None:
    """Guards the button: a real compile in a process of its own, with the counts of its instructions."""
    pytest.importorskip("triton", reason="Triton is optional; without it there is nothing to compile")
    assert set(cases()) == set(KERNELS)
    made = json.loads(_python("engine.workload.kernel_ptx", "add_rmsnorm"))
    assert ".target sm_90" in made["ptx"] and made["cubin"] > 0
    assert made["counts"] == counts(made["ptx"]) and made["counts"]["ld.global"] > 0
    assert set(made["counts"]) <= set(NOTABLE)
