"""Where the time went: lines that add up, kernels that are counted once, graphs that are counted from the trace."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from engine.trace.events import Admit, Apply, Record, Step, Time
from engine.trace.step_facts import StepFacts
from engine.trace.timed_steps import TimedStep, graph_use, timed_steps
from engine.workload import bench, check, lengths
from engine.workload.ladder import ladder
from engine.workload.limits import Machine, ModelShape, offline_floor
from engine.workload.step_profile import class_of, shares
from engine.workload.waterfall import CLASSES, typical_decode, waterfall

SHAPE = ModelShape(64, 2, 4, 2, 64, 128, 512, tied=True)
MACHINE = Machine(1e9, 1e12)
FLOOR = {"prefill_s": 0.001, "decode_s": 0.004, "total_s": 0.005, "output_throughput": 1000.0}
KERNELS = Path(__file__).resolve().parents[2] / "kernels"


def a_step(rows: int, bucket: int, busy_s: float, chunk: int = 0) -> TimedStep:
    facts = StepFacts(1, 0, decode_rows=rows, context=rows * 100, prefill_tokens=chunk, chunks=int(chunk > 0))
    return TimedStep(facts, rows + chunk, bucket, not chunk, 0, busy_s, 1e-5, 1e-4)


RUN = [a_step(0, 64, 0.01, chunk=50), a_step(3, 32, 0.01, chunk=20), a_step(3, 4, 0.005), a_step(2, 2, 0.004)]
PROFILED = {"attention": 0.4, "products": 0.3, "sampling": 0.1, "other kernels": 0.15, "gaps in a step": 0.05}


@pytest.mark.parametrize("profiled", [None, PROFILED | {"rows": 3, "context": 100}], ids=["no profile", "profile"])
def test_lines_add_up_to_what_is_lost(profiled):
    """Guards the waterfall: nothing counted twice, nothing left over, with the decode part split or not."""
    found = waterfall(RUN, 0.05, FLOOR, SHAPE, MACHINE, profiled)
    lines = {line["name"]: line["seconds"] for line in found["lines"]}
    assert sum(lines.values()) == pytest.approx(0.05 - FLOOR["total_s"])
    lost = sum(line["tokens_per_s"] for line in found["lines"])
    assert found["limit"] - lost == pytest.approx(found["output_throughput"])
    assert found["output_throughput"] == pytest.approx(1000.0 * 0.005 / 0.05)
    assert (set(CLASSES) <= lines.keys()) == (profiled is not None) == ("decode" not in lines)
    assert lines["launch gaps"] == pytest.approx(4e-5) and lines["padding"] > 0


def test_padding_of_an_exact_step_is_free():
    """Guards the padding line: steps that fill their graph, or run eagerly, pad nothing."""
    run = [replace(step, bucket=step.tokens) for step in RUN[:2]] + [replace(step, bucket=0) for step in RUN[2:]]
    lines = {line["name"]: line["seconds"] for line in waterfall(run, 0.05, FLOOR, SHAPE, MACHINE)["lines"]}
    assert lines["padding"] == 0


def test_the_typical_step_is_weighted_by_time():
    """Guards the profiled step: long steps stand for more of the run; mixed steps do not count."""
    assert typical_decode(RUN) == (3, 100) and typical_decode(RUN[:2]) is None
    assert typical_decode([a_step(1, 1, 0.001), a_step(9, 16, 0.003)]) == (7, 100)


def test_overlapping_kernels_count_once():
    """Guards dependent launches: a kernel that starts early and waits must not be paid twice."""
    spans = [("_linear_kernel", 0, 4), ("_decode_kernel", 2, 8), ("_sample_kernel", 9, 10), ("_linear_kernel", 1, 3)]
    assert shares(spans) == pytest.approx(
        {"attention": 0.4, "products": 0.4, "sampling": 0.1, "other kernels": 0, "gaps in a step": 0.1}
    )


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (("decode", "prefill", "attention"), "attention"),
        (("skinny", "quant_row", "quant_dot", "dequantise"), "products"),
        (("sampling", "filters", "penalties"), "sampling"),
        (("rmsnorm", "staging", "advance", "silu_mul"), "other kernels"),
    ],
)
def test_every_kernel_of_ours_has_its_class(files, expected):
    """Guards the names: a renamed kernel must not slip into another line."""
    names = [name for file in files for name in _kernel_names(KERNELS / f"{file}.py")]
    assert names and {class_of(name) for name in names} == {expected}


def _kernel_names(path: Path) -> list[str]:
    return re.findall(r"^def (\w+_kernel)\(", path.read_text(), re.MULTILINE) if path.exists() else []


def test_kernels_of_libraries_have_their_class():
    """Guards names seen on an H200: cuBLAS' products, and copies of PyTorch."""
    products = ("nvjet_sm90_tst_64x8_64x16_4x1_v_bz_TNT", "void cublasLt::splitKreduce_kernel<32, 16, int>", "gemv2T")
    assert {class_of(name) for name in products} == {"products"}
    assert class_of("void at::native::vectorized_gather_kernel<16, int>") == "other kernels"


def test_hits_and_padding_come_from_the_trace():
    """Guards the ladder: a graph of 4 with 3 rows pads one token; a chunk of one token is a decode step."""
    sizes = {"budget": 64, "free": 0, "reclaimable": 0, "waiting": 0}
    chunk = {"chunk_rows": [0], "chunk_starts": [0], "chunk_lasts": [1]}
    events = [
        (Admit(0, 0, 0, 0, 0, []), 0),
        (Step(**sizes, used=5, bucket=8, **chunk, chunk_tokens=[5]), 1),
        (Apply(1, [0], [7]), 1),
        (Time(1, gpu_us=50.0), 1),
        (Step(**sizes, used=3, bucket=4, joined=[0]), 2),
        (Apply(2, [0], [7]), 2),
        (Time(2, idle_us=4.0), 2),
    ]
    steps = timed_steps([Record(seq, seq * 1000, step, event) for seq, (event, step) in enumerate(events)])
    assert [step.busy_s for step in steps] == pytest.approx([50e-6, 1e-6])  # the host's time where the device has none
    assert graph_use(steps) == [
        {"tokens": 4, "kind": "decode", "hits": 1, "padding": 1, "computed": 3},
        {"tokens": 8, "kind": "mixed", "hits": 1, "padding": 3, "computed": 5},
    ]
    captured = [{"tokens": 4, "kind": "decode", "seconds": 0.1, "mb": 2.0, "error": None}]
    decode, mixed = ladder(captured, steps)
    assert (decode["mb"], decode["waste"], mixed["seconds"], mixed["hits"]) == (2.0, 0.25, None, 1)


def logits_of(loaded):
    """As ``Session.logits``."""
    return lambda prompt, answer, backend: loaded.worker.logits(prompt + answer[:-1], backend, first=len(prompt) - 1)


def test_the_check_redraws_the_very_run(loaded):
    """Guards "correct": greedy, sampled and filtered tokens of a measured run are chosen again, and a fault is seen."""
    items = [replace(item, prompt_ids=[token % 512 for token in item.prompt_ids[:40]]) for item in lengths.w1(6).items]
    items = [replace(item, max_tokens=20, forced_output_length=20) for item in items]
    items[1] = replace(items[1], params={})
    items[2] = replace(items[2], params={"temperature": 0.9, "top_p": 0.8, "top_k": 50, "seed": -3})
    measured = bench.throughput(loaded.new_engine, lengths.Workload("some", items, 0), repeats=1)
    outputs = [list(output) for output in measured.recorded.outputs]
    found = check.check(items, outputs, logits_of(loaded), 6)
    assert (found["agreed"], found["tokens"], found["first_divergence"]) == (120, 120, None)
    assert found["greedy_rank"] == 0 and found["logit_gap"] < 1e-3
    outputs[1][7] = (outputs[1][7] + 1) % 512
    found = check.check(items, outputs, logits_of(loaded), 6)
    assert found["first_divergence"] == {"request": 1, "position": 7}
    assert found["agreed"] < 120 and found["greedy_rank"] > 0 and found["greedy_gap"] > 0


def test_a_real_run_closes(loaded):
    """Guards the fold on a real engine: every step is timed, and host time is what remains, not less than nothing."""
    items = lengths.race(8, 1.0, 0, 512).items
    measured = bench.throughput(loaded.new_engine, lengths.Workload("race", items, 0), repeats=1)
    floor = offline_floor(SHAPE, [(len(item.prompt_ids), item.output_length) for item in items], MACHINE, 4)
    found = waterfall(measured.steps, measured.recorded.seconds, floor, SHAPE, MACHINE)
    lines = {line["name"]: line["seconds"] for line in found["lines"]}
    assert 0 <= lines["host"] < 0.5 * found["wall_s"] and sum(use["hits"] for use in graph_use(measured.steps)) > 8
