"""Arguments of the commands that compare: workloads, contestants, studies, simulations and other servers."""

import argparse

from engine.arguments import between, whole
from engine.workload.named import BY_NAME

JSON_HELP = "results as JSON; - is standard output"


def add_workload(parser: argparse.ArgumentParser, default: str = "W1") -> None:
    """What is asked of an engine, and when."""
    names = f"{', '.join(BY_NAME)}, or a file NAME.jsonl in the Mooncake schema"
    parser.add_argument("--workload", default=default, metavar="NAME", help=names)
    parser.add_argument("--requests", type=whole(1), help="how many of it")
    parser.add_argument("--rate", type=between(1e-6, 1e6), help="arrivals per second; all at once without it")
    parser.add_argument("--cv", type=between(0, 100), help="variation of the intervals (default 1: Poisson)")
    parser.add_argument("--concurrency", type=whole(1), help="closed loop: at most so many under way")


def add_contestants(race: argparse.ArgumentParser) -> None:
    """Who else takes part in a race."""
    words = "max-utilization, guaranteed-no-evict, chunked, whole, transformers, or the URL of a server"
    race.add_argument("--contestants", nargs="+", default=[], metavar="NAME", help=words)
    _add_remote(race)


def add_studies(benches: argparse._SubParsersAction, common: argparse.ArgumentParser) -> None:
    """The commands of ``engine.study_commands``."""
    studies = (
        ("pressure", "both capacity policies with twice the demand that the pool holds"),
        ("prefix", "the prefix cache on and off, at no hits and at 90 %%"),
        ("chunking", "32k prompts among running answers, in chunks and whole"),
    )
    for name, words in studies:
        study = benches.add_parser(name, parents=[common], help=words)
        study.add_argument("--case", action="append", metavar="NAME", help="one of its comparisons (default: all)")
        study.add_argument("--share", type=between(0.01, 1), default=1.0, help="of its requests, for a quick look")
        study.add_argument("--repeats", type=whole(1), default=1)
        study.set_defaults(commands="engine.study_commands", run="bench_study", study=name)
    _add_simulations(benches, common)
    _add_serve_url(benches)
    export = benches.add_parser("workload", help="write a workload as JSON lines in the Mooncake schema")
    add_workload(export)
    export.add_argument("--seed", type=whole(0), default=0)
    export.add_argument("--output", required=True, metavar="FILE")
    export.set_defaults(commands="engine.study_commands", run="bench_workload")


def _add_simulations(benches: argparse._SubParsersAction, common: argparse.ArgumentParser) -> None:
    simulate = benches.add_parser("simulate", parents=[common], help="how far the simulator is off on this machine")
    simulate.add_argument("--requests", type=whole(4), default=96)
    simulate.add_argument("--repeats", type=whole(1), default=2)
    simulate.set_defaults(commands="engine.study_commands", run="bench_simulate")
    what_if = benches.add_parser("what-if", parents=[common], help="a recorded run again, under another setting")
    what_if.add_argument("file", metavar="FILE", help="a recording")
    words = "such as pool_blocks=+10%% or capacity=guaranteed-no-evict; may be given again"
    what_if.add_argument("--set", action="append", required=True, metavar="SETTING=VALUE", help=words)
    what_if.add_argument("--number", type=whole(1), default=1, help="which run of the recording")
    what_if.add_argument("--measure", action="store_true", help="run both on the model instead of simulating them")
    what_if.set_defaults(commands="engine.study_commands", run="bench_what_if")


def _add_serve_url(benches: argparse._SubParsersAction) -> None:
    serve_url = benches.add_parser("serve-url", help="the same requests to any OpenAI-compatible server")
    serve_url.add_argument("url", metavar="URL", help="such as http://127.0.0.1:8000")
    add_workload(serve_url, "sharegpt")
    serve_url.add_argument("--served-model", metavar="NAME", help="the first that it offers, unless given")
    serve_url.add_argument("--vocab-size", type=whole(2), default=10_000, help="token ids of prompts are below this")
    serve_url.add_argument("--seed", type=whole(0), default=0)
    serve_url.add_argument("--json", metavar="FILE", help=JSON_HELP)
    _add_remote(serve_url)
    serve_url.set_defaults(commands="engine.study_commands", run="bench_serve_url")


def _add_remote(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--remote", action="store_true", help="the URL may lead to another machine")
