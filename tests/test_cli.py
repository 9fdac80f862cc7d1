"""The command line: one line per mistake, results on standard output only, JSON as documented."""

import argparse
import importlib
import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

from engine.__main__ import build_parser, main
from engine.command_setup import race_config
from engine.trace.files import load
from engine.trace.timeline import split_runs
from engine.workload.race import SCHEDULERS
from engine.workload.report import ProgressBar, box, document, number

ROOT = Path(__file__).resolve().parent.parent
TINY = ("--random-weights", "tiny", "--device", "cpu", "--dtype", "fp32")


def run(*arguments):
    """The command line as a person runs it."""
    command = [sys.executable, "-m", "engine", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=os.environ | {"NO_COLOR": "1"})


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("bench", "race", "--rows", "0"), ("--rows", "at least 1", "'0'")),
        (("bench", "race", "--length-spread", "2"), ("--length-spread", "0..1")),
        (("bench", "race", "--batching", "x"), ("--batching", "in-flight", "static-shrinking")),
        (("bench", "race", "--preemption", "x"), ("--preemption", "lifo", "lowest-priority", "cheapest")),
        (("bench", "race", "--eviction", "x"), ("--eviction", "lru", "priority", "flat-lru")),
        (("bench", "race", "--queue-order", "x"), ("--queue-order", "priority", "deadline")),
        (("bench", "race", "--aging", "-1"), ("--aging", "0..1e+06")),
        (("bench", "race", "--host-blocks", "-1"), ("--host-blocks", "0")),
        (("bench", "race", "--swap", "often"), ("--swap", "never", "always", "cheaper")),
        (("bench", "race", "--watermark", "1"), ("--watermark", "0..0.99")),
        (("bench", "throughput", "--workload", "W9"), ("workload", "W1", "mooncake", "NAME.jsonl")),
        (("bench", "throughput", "--workload", "none.jsonl"), ("workload", "a file that can be read", "none.jsonl")),
        (("bench", "throughput", "--rate", "0"), ("--rate", "'0'")),
        (("bench", "throughput", "--cv", "2"), ("cv", "a --rate beside it")),
        (("bench", "throughput", "--concurrency", "0"), ("--concurrency", "at least 1")),
        (("bench", "race", "--contestants", "vllm"), ("contestants", "transformers, or a URL", "'vllm'")),
        (("bench", "race", "--contestants", "http://example.com"), ("url", "--remote")),
        (("bench", "pressure", "--case", "x"), ("case", "half-the-demand")),
        (("bench", "serve-url", "localhost:1"), ("url", "http://HOST:PORT")),
        (("bench", "what-if", "x"), ("--set",)),
        (("bench", "race", "--token-budget", "4"), ("token_budget", "max_num_seqs (8)")),
        (("generate", "--prompt", "x", "--device", "tpu"), ("device", "cuda:N")),
        (("generate", "--prompt", "x", "--random-weights", "gpt-5"), ("--random-weights", "qwen3-0.6b")),
        (("generate",), ("--prompt",)),
        (("trace", "x", "--to", "pdf"), ("--to", "jsonl")),
        ((), ("COMMAND",)),
    ],
)
def test_bad_input_is_one_line_and_status_2(arguments, words, capsys):
    """Guards the error contract: field and allowed values, no usage dump, nothing on standard output."""
    try:
        status = main(arguments)
    except SystemExit as stop:
        status = stop.code
    out, err = capsys.readouterr()
    assert (status, out) == (2, "") and len(err.strip().splitlines()) == 1
    assert all(word in err for word in words)


def test_a_missing_recording_is_a_failure_not_bad_syntax(tmp_path, capsys):
    """Guards exit status 1: the input was well-formed, the work failed; still one line."""
    assert main(["trace", str(tmp_path / "none"), "--to", "jsonl"]) == 1
    assert len(capsys.readouterr().err.strip().splitlines()) == 1


def test_policies_reach_the_scheduler():
    """An option that is parsed and then forgotten would change nothing, silently."""
    chosen = ["--preemption", "cheapest", "--queue-order", "deadline", "--eviction", "priority", "--wait-for-prefix"]
    offload = ["--host-blocks", "70", "--swap", "always"]
    args = build_parser().parse_args(["bench", "race", "--device", "cpu", "--aging", "2.5", *chosen, *offload])
    limits = race_config(args).scheduling
    assert (limits.preemption, limits.queue_order, limits.eviction) == ("cheapest", "deadline", "priority")
    assert (limits.aging_s, limits.wait_for_prefix) == (2.5, True)
    assert (limits.host_blocks, limits.swap, limits.prefix_cache) == (70, "always", True)


def test_every_command_names_a_function_that_exists():
    """Guards the dispatch by name."""
    lines = ["generate --prompt x", "bench race", "bench throughput", "bench latency", "serve", "trace f --to csv"]
    lines += [f"bench {name}" for name in ("pressure", "prefix", "chunking", "simulate", "serve-url u")]
    lines += ["bench what-if f --set watermark=0", "bench workload --output f"]
    for line in lines:
        args = build_parser().parse_args(line.split())
        assert callable(getattr(importlib.import_module(args.commands), args.run))


def test_every_command_prints_its_help():
    """Guards a bare percent sign in a help text: argparse formats it only when somebody asks for help."""
    parsers = [build_parser()]
    for parser in parsers:
        assert parser.format_help().startswith("usage:")
        choices = [action.choices for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
        parsers += [command for commands in choices for command in commands.values()]
    assert len(parsers) > 15


def test_parsing_loads_no_torch():
    """Guards quick errors: a typo must not cost the seconds that torch takes to load."""
    code = "import sys, engine.__main__ as m; m.build_parser(); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def test_race_prints_json_alone_and_records(tmp_path):
    """Guards `bench race --json -`: standard output is one document, progress went elsewhere, the trace replays."""
    record = tmp_path / "race.fd"
    done = run("bench", "race", *TINY, "--requests", 6, "--rows", 2, "--repeats", 1, "--json", "-", "--record", record)
    assert done.returncode == 0, done.stderr
    made = json.loads(done.stdout)
    assert made.keys() == {"meta", "results"} and made["results"]["tokens_identical"]
    assert made["meta"].keys() == {"device", "date", "driver", "versions", "commit", "config"}
    assert tuple(made["results"]["schedulers"]) == tuple(SCHEDULERS)
    assert "in-flight, repeat 1" in done.stderr
    assert sum(record.event.KIND.name == "RUN" for record in load(record)) == 4  # no warm-up in a recording
    assert run("trace", record, "--to", "html").stdout.startswith("<!doctype html>")
    table = run("trace", record, "--to", "csv")
    assert len(table.stdout.splitlines()) == 1 + 4 * 6


def test_throughput_states_the_limit_and_checks_answers(tmp_path):
    """Guards the headline figure: tokens/s stands beside the limit of this machine, answers are recomputed."""
    where = tmp_path / "out.json"
    sizes = ("--workload", "azure-code", "--requests", 4, "--max-model-len", 128, "--max-num-seqs", 4)
    done = run("bench", "throughput", *TINY, *sizes, "--repeats", 1, "--check", 2, "--json", where)
    assert done.returncode == 0, done.stderr
    results = json.loads(where.read_text())["results"]
    assert results["of_limit"] == pytest.approx(results["output_throughput"] / results["limit"])
    assert results["check"]["agreed"] == results["check"]["tokens"] > 0
    lost = sum(line["tokens_per_s"] for line in results["waterfall"]["lines"])
    assert results["limit"] - lost == pytest.approx(results["output_throughput"])  # one pass: the recorded one
    assert "tokens produced (not: asked for)" in done.stdout  # formulas beside the numbers
    assert "device idle between steps" in done.stdout and "CUDA graphs" not in done.stdout


def test_a_paced_workload_from_a_file_has_latencies_and_no_limit(tmp_path, capsys):
    """Guards open loop and files: with arrivals the load decides, so no limit is claimed; latencies stand there."""
    file, where = tmp_path / "w.jsonl", tmp_path / "out.json"
    assert main(["bench", "workload", "--workload", "sharegpt", "--requests", "4", "--output", str(file)]) == 0
    assert "input_tokens" in capsys.readouterr().out
    sizes = ["--workload", str(file), "--max-model-len", "64", "--max-num-seqs", "4", "--repeats", "1"]
    load_of = ["--rate", "50", "--cv", "2", "--concurrency", "2", "--json", str(where)]
    assert main(["bench", "throughput", *TINY, *sizes, *load_of]) == 0
    results = json.loads(where.read_text())["results"]
    assert {"median_ttft_ms", "p99_itl_ms", "mean_tpot_ms", "std_e2el_ms"} <= results.keys()
    assert "limit" not in results and "p99_ttft_ms" in capsys.readouterr().out


def test_a_recording_can_be_asked_what_if(tmp_path, capsys):
    """Guards `bench what-if`: no model is loaded, both sides are said to be simulated, and where they part."""
    record, where = tmp_path / "run.fd", tmp_path / "out.json"
    sizes = ["--workload", "W1", "--requests", "6", "--max-model-len", "96", "--max-num-seqs", "6", "--repeats", "1"]
    assert main(["bench", "throughput", *TINY, *sizes, "--pool-blocks", "40", "--record", str(record)]) == 0
    capsys.readouterr()
    asked = ["--set", "pool_blocks=-50%", "--json", str(where), "--record", str(tmp_path / "after.fd")]
    assert main(["bench", "what-if", str(record), *asked]) == 0
    assert split_runs(load(tmp_path / "after.fd"))[0].provenance == "Simulated"
    out, results = capsys.readouterr().out, json.loads(where.read_text())["results"]
    assert "before (Simulated)" in out and "They part at step" in out
    assert results["changes"] == {"pool_blocks": 20} and results["after"]["completed"] == 6
    assert main(["bench", "what-if", str(record), "--set", "watermark=0", "--number", "9"]) == 2
    assert "number: 1 to 1" in capsys.readouterr().err


def test_a_study_says_what_must_hold(tmp_path, capsys):
    """Guards `bench pressure`, and the other studies with it: both settings, each goal with its verdict."""
    where = tmp_path / "out.json"
    sizes = [
        "--max-model-len",
        "96",
        "--max-num-seqs",
        "4",
        "--pool-blocks",
        "200",
        "--share",
        "0.02",
        "--repeats",
        "1",
    ]
    assert main(["bench", "pressure", *TINY, *sizes, "--json", str(where)]) == 0
    results = json.loads(where.read_text())["results"]
    assert list(results) == ["half-the-demand", "half-the-rows", "declared-too-much"]
    for one in results.values():
        assert list(one["settings"]) == ["max-utilization", "guaranteed-no-evict"]
        assert all(isinstance(goal["holds"], bool) for goal in one["goals"])
        work = {side["total_output_tokens"] for side in one["settings"].values()}
        assert len(work) == 1 and one["settings"]["guaranteed-no-evict"]["preemptions"] == 0
    assert "output_throughput" in capsys.readouterr().out


def test_an_8_bit_pool_states_what_it_costs(tmp_path):
    """Guards a speed without its price: beside tokens/s stand KL and greedy agreement with the model's own KV dtype,
    and the run says in which pool it was."""
    where = tmp_path / "out.json"
    sizes = ("--workload", "azure-code", "--requests", 3, "--max-model-len", 96, "--max-num-seqs", 3)
    command = (
        "bench",
        "throughput",
        *TINY,
        *sizes,
        "--kv-dtype",
        "int8",
        "--repeats",
        1,
        "--check",
        2,
        "--json",
        where,
    )
    done = run(*command)
    assert done.returncode == 0, done.stderr
    document = json.loads(where.read_text())
    found = document["results"]["kv_accuracy"]
    assert found["texts"] == 2 and 0 < found["kl"] < 0.1 and found["greedy_agreement"] > 0.8
    assert "int8" in document["meta"]["config"]["scheduling"]["kv_identity"]
    assert "share of places where the best token is the same" in done.stdout


def test_latency_sweeps_the_rows(tmp_path):
    """Guards `bench latency`: one entry per number of rows at the context that was asked for, each with its floor."""
    where = tmp_path / "out.json"
    done = run("bench", "latency", *TINY, "--rows", 1, 3, "--prompt-tokens", 20, "--output-tokens", 12, "--json", where)
    assert done.returncode == 0, done.stderr
    one, three = json.loads(where.read_text())["results"]
    assert (one["rows"], three["rows"], one["eager_ms"]) == (1, 3, None)
    assert 22 < one["context"] < 32 and one["of_floor"] == pytest.approx(one["floor_ms"] / one["ms_per_step"])


def test_mixed_finds_the_steps_of_decodes_and_one_chunk(tmp_path):
    """Guards `bench mixed`: only steps in which all rows decode beside a whole chunk count."""
    where = tmp_path / "out.json"
    done = run("bench", "mixed", *TINY, "--decodes", 3, "--chunk", 16, "--context", 20, "--json", where)
    assert done.returncode == 0, done.stderr
    entry = json.loads(where.read_text())["results"]
    assert (entry["decodes"], entry["chunk"]) == (3, 16) and entry["steps"] >= 10 and entry["context"] > 20


def test_the_machine_is_measured_by_format(tmp_path):
    """Guards `bench machine`: every ceiling is there, with the device and the date that make it worth keeping."""
    where = tmp_path / "out.json"
    done = run("bench", "machine", "--device", "cpu", "--json", where)
    assert done.returncode == 0, done.stderr
    document = json.loads(where.read_text())
    assert document["results"]["matmul_flops"]["float32"] > 0 and document["results"]["launch_graph_s"] == 0
    assert document["meta"]["device"] and document["meta"]["date"]


def test_stages_stand_on_the_same_requests(tmp_path):
    """Guards `bench stages`: transformers first, a stage that the device lacks is left out, ratios multiply up."""
    where = tmp_path / "out.json"
    done = run("bench", "stages", *TINY, "--requests", 4, "--rows", 2, "--json", where)
    assert done.returncode == 0, done.stderr
    entries = json.loads(where.read_text())["results"]
    names = ["transformers", "fused kernels", "in-flight batching", "one step in flight", "int8 KV"]
    assert [entry["stage"] for entry in entries] == names
    assert all(entry["agreed"] == 1 for entry in entries[1:-1]) and 0.5 < entries[-1]["agreed"] <= 1
    assert entries[-1]["kl"] > max(entry["kl"] for entry in entries[1:-1])
    assert entries[-1]["times_first"] == pytest.approx(math.prod(entry["times_before"] for entry in entries))


def test_generate_streams_text_and_keeps_standard_output_clean(tmp_path):
    """Guards the pipe: text and nothing else on standard output; the same seed gives the same tokens."""
    arguments = ["generate", "--device", "cpu", "--max-tokens", "8", "--seed", "3", "--prompt", "Once", "--json"]
    first, second = (run(*arguments, tmp_path / f"{n}.json") for n in range(2))
    assert first.returncode == 0, first.stderr
    text = json.loads((tmp_path / "0.json").read_text())["results"]["text"]
    assert first.stdout == second.stdout == text + "\n"


def test_numbers_are_readable():
    """Guards the table: separators for large numbers, four digits for small ones, whole numbers as they are."""
    assert [number(value) for value in (1234567, 35984.3, 0.123456, 7, True)] == [
        "1,234,567",
        "35,984",
        "0.1235",
        "7",
        "yes",
    ]
    assert box("t", [("name", "1"), ("a", "22")]).splitlines()[1:3] == ["name   1", "a     22"]


def test_not_a_number_never_reaches_the_json():
    """Guards readers of the JSON: NaN is not JSON."""
    with pytest.raises(ValueError, match="not JSON compliant"):
        document({}, {"x": float("nan")})


def test_progress_without_a_terminal_is_a_line_per_stage():
    """Guards logs: no carriage returns in a file, and not one line per update."""
    import io

    stream = io.StringIO()
    bar = ProgressBar(stream)
    for share in (0.0, 0.5, 1.0):
        bar("loading", share)
    bar("running", 0.0)
    bar.close()
    assert stream.getvalue() == "loading\nrunning\n"
