"""The command line: ``python -m engine COMMAND``. Parses and reports errors; ``engine.commands``,
``engine.device_commands`` and ``engine.study_commands`` do the work.

Bad input: one line on standard error and exit 2. A failure: one line and exit 1. Results go to standard output,
progress and logs to standard error.
"""

import argparse
import importlib
import logging
import sys
from collections.abc import Sequence
from typing import NoReturn, get_args

from engine import study_arguments
from engine.arguments import between, whole
from engine.config import (
    Batching,
    Capacity,
    Chunking,
    Dtype,
    Eviction,
    KVDtype,
    Preemption,
    Quantize,
    QueueOrder,
    Shape,
    Swap,
)
from engine.errors import FlightdeckError, InvalidRequest, UnsupportedModel

KERNELS = ("add_rmsnorm", "silu_mul", "rope_write_kv", "decode", "prefill", "linear", "quant", "sample")


class Parser(argparse.ArgumentParser):
    """An argument parser whose complaint is one line."""

    def error(self, message: str) -> NoReturn:
        """Print one line without usage and exit 2."""
        self.exit(2, f"{self.prog}: {message}\n")


def common_options() -> argparse.ArgumentParser:
    """Options that every command which loads a model takes. A default of None is filled in per command and device."""
    parser = argparse.ArgumentParser(add_help=False)
    model = parser.add_argument_group("model")
    model.add_argument("--model", default="bundled", metavar="PATH_OR_ID")
    model.add_argument("--random-weights", choices=get_args(Shape), metavar="SHAPE", help=", ".join(get_args(Shape)))
    model.add_argument("--device", default="auto")
    model.add_argument("--dtype", default="auto", choices=get_args(Dtype))
    model.add_argument("--kv-dtype", default="auto", choices=get_args(KVDtype))
    model.add_argument("--quantize", choices=get_args(Quantize), help="format of the layers' weights; none: as --dtype")
    sizes = parser.add_argument_group("sizes and policies")
    sizes.add_argument("--block-size", type=whole(1), default=16)
    sizes.add_argument("--pool-blocks", type=whole(1))
    sizes.add_argument("--max-num-seqs", type=whole(1))
    sizes.add_argument("--max-model-len", type=whole(2))
    sizes.add_argument("--token-budget", type=whole(1))
    sizes.add_argument("--watermark", type=between(0, 0.99), help="share of the pool kept free when admitting")
    sizes.add_argument("--batching", choices=get_args(Batching), default="in-flight")
    sizes.add_argument("--capacity", choices=get_args(Capacity), default="max-utilization")
    sizes.add_argument("--chunking", choices=get_args(Chunking), default="fcfs")
    sizes.add_argument("--preemption", choices=get_args(Preemption), default="lifo")
    sizes.add_argument("--queue-order", choices=get_args(QueueOrder), default="priority")
    sizes.add_argument("--aging", type=between(0, 1e6), default=0.0, metavar="SECONDS", help="worth one priority level")
    sizes.add_argument("--eviction", choices=get_args(Eviction), default="lru")
    sizes.add_argument("--host-blocks", type=whole(0), default=0, metavar="N", help="of host memory, for evicted KV")
    sizes.add_argument("--swap", choices=get_args(Swap), default="cheaper", help="bring it back, or compute it again")
    sizes.add_argument("--wait-for-prefix", action="store_true", help="wait for a shared prefix that is being computed")
    sizes.add_argument("--in-flight-steps", type=whole(0))
    output = parser.add_argument_group("run and output")
    output.add_argument("--seed", type=whole(0), default=0)
    output.add_argument("--json", metavar="FILE", help="results as JSON; - is standard output")
    output.add_argument("--record", metavar="FILE", help="write the trace of the run")
    return parser


def build_parser() -> Parser:
    """The parser of all commands; ``args.run`` names the function in the module ``args.commands``."""
    parser = Parser(prog="python -m engine", description="Flightdeck's engine without the app.")
    parser.set_defaults(commands="engine.commands")
    commands = parser.add_subparsers(required=True, metavar="COMMAND", parser_class=Parser)
    common = common_options()
    _add_generate(commands, common)
    benches = commands.add_parser("bench", help="measure").add_subparsers(required=True, metavar="BENCH")
    _add_benches(benches, common)
    _add_device_benches(benches)
    study_arguments.add_studies(benches, common)
    serve = commands.add_parser("serve", parents=[common], help="/v1 and /metrics without the app")
    serve.add_argument("--host", default="127.0.0.1")
    serve.add_argument("--port", type=whole(1), default=8000)
    serve.set_defaults(run="serve")
    trace = commands.add_parser("trace", help="export a recording")
    trace.add_argument("file", metavar="FILE")
    trace.add_argument("--to", required=True, choices=("jsonl", "csv", "chrome", "html"))
    trace.add_argument("--table", choices=("requests", "steps"), default="requests", help="of csv")
    trace.add_argument("--output", default="-", metavar="FILE", help="- is standard output")
    trace.set_defaults(run="trace")
    return parser


def _add_generate(commands: argparse._SubParsersAction, common: argparse.ArgumentParser) -> None:
    generate = commands.add_parser("generate", parents=[common], help="stream a completion")
    generate.add_argument("--prompt", required=True, metavar="TEXT")
    generate.add_argument("--max-tokens", type=whole(1))
    generate.add_argument("--temperature", type=between(0, 100), default=0.8)
    generate.add_argument("--top-p", type=between(0, 1), default=0.95)
    generate.add_argument("--top-k", type=whole(-1), default=0)
    generate.add_argument("--stop", action="append", default=[], metavar="TEXT")
    generate.set_defaults(run="generate")


def _add_benches(benches: argparse._SubParsersAction, common: argparse.ArgumentParser) -> None:
    race = benches.add_parser("race", parents=[common], help="the same requests through four schedulers")
    race.add_argument("--requests", type=whole(1), default=64)
    race.add_argument("--rows", type=whole(1), default=8)
    race.add_argument("--length-spread", type=between(0, 1), default=1.0)
    race.add_argument("--repeats", type=whole(1), default=3)
    study_arguments.add_contestants(race)
    race.set_defaults(run="bench_race")
    throughput = benches.add_parser("throughput", parents=[common], help="tokens/s and the fraction of the limit")
    study_arguments.add_workload(throughput)
    throughput.add_argument("--repeats", type=whole(1), default=2)
    throughput.add_argument(
        "--check", type=whole(0), default=0, metavar="N", help="recompute N answers of the run with the references"
    )
    throughput.add_argument("--compare", choices=("transformers",))
    throughput.add_argument("--compare-seconds", type=whole(1), default=120, help="time cap of the peer")
    throughput.set_defaults(run="bench_throughput")
    latency = benches.add_parser("latency", parents=[common], help="ms per decode step over a sweep of rows")
    latency.add_argument("--rows", type=whole(1), nargs="+", help="1 8 64 256; 1 8 on a CPU")
    latency.add_argument("--prompt-tokens", type=whole(1), help="1000; 128 on a CPU")
    latency.add_argument("--output-tokens", type=whole(8), help="48; 32 on a CPU")
    latency.set_defaults(run="bench_latency")
    mixed = benches.add_parser("mixed", parents=[common], help="ms of a step of decodes and a chunk of a prompt")
    mixed.add_argument("--decodes", type=whole(1), default=255)
    mixed.add_argument("--chunk", type=whole(1), default=512)
    mixed.add_argument("--context", type=whole(1), default=1000)
    mixed.set_defaults(run="bench_mixed")
    stages = benches.add_parser("stages", parents=[common], help="from transformers to this engine, step by step")
    stages.add_argument("--requests", type=whole(1), default=64)
    stages.add_argument("--rows", type=whole(1), default=16)
    stages.add_argument("--compare-seconds", type=whole(1), default=20, help="time cap of transformers")
    stages.set_defaults(run="bench_stages")
    accuracy = benches.add_parser("quantize", parents=[common], help="what a weight format costs in accuracy")
    accuracy.add_argument("--requests", type=whole(1), default=8)
    accuracy.add_argument("--prompt-tokens", type=whole(1), default=64)
    accuracy.add_argument("--output-tokens", type=whole(1), default=32)
    accuracy.set_defaults(run="bench_quantize")


def _add_device_benches(benches: argparse._SubParsersAction) -> None:
    kernels = benches.add_parser("kernels", help="each fused kernel: checked, timed, beside its ceiling and peers")
    kernels.add_argument("--kernel", choices=KERNELS)
    kernels.add_argument(
        "--tune", choices=get_args(Shape), help="measure and keep the tiles of a model shape's products"
    )
    kernels.add_argument("--device", default="auto")
    kernels.add_argument("--json", metavar="FILE", help="results as JSON; - is standard output")
    kernels.set_defaults(commands="engine.device_commands", run="bench_kernels")
    machine = benches.add_parser("machine", help="bandwidth, matmul peak by format, what a launch costs")
    machine.add_argument("--device", default="auto")
    machine.add_argument("--json", metavar="FILE", help="results as JSON; - is standard output")
    machine.set_defaults(commands="engine.device_commands", run="bench_machine")
    host = benches.add_parser("host", help="cost of a step on the host; no GPU")
    host.add_argument("--json", metavar="FILE", help="results as JSON; - is standard output")
    host.set_defaults(commands="engine.device_commands", run="bench_host")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status."""
    args = build_parser().parse_args(arguments)
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(name)s: %(message)s")
    try:
        getattr(importlib.import_module(args.commands), args.run)(args)
    except (InvalidRequest, UnsupportedModel) as error:
        return _complain(error, 2)
    except (FlightdeckError, OSError, ValueError, RuntimeError) as error:
        return _complain(error, 1)
    except KeyboardInterrupt:
        return _complain("interrupted", 1)
    return 0


def _complain(error: object, status: int) -> int:
    print(f"python -m engine: {' '.join(str(error).split())}", file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main())
