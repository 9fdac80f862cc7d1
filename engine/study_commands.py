"""One function per command that compares: studies, simulations, what-if, other servers. Each takes the parsed arguments
and writes its results."""

import argparse

from engine.command_setup import live_config, session, study_config, workload_of
from engine.errors import InvalidRequest
from engine.provenance import provenance
from engine.trace.files import load, save
from engine.trace.timeline import Timeline, split_runs
from engine.workload import remote, report, study_tables
from engine.workload.counterfactual import what_if
from engine.workload.http_stream import server_at
from engine.workload.mooncake import save_jsonl
from engine.workload.replay import scheduling_of
from engine.workload.settings import parse_change
from engine.workload.simulator_check import check_simulator
from engine.workload.studies import run_study
from engine.workload.study_cases import SIZES, STUDIES


def bench_study(args: argparse.Namespace) -> None:
    """Two settings side by side, for each comparison of a study."""
    cases = STUDIES[args.study]
    for name in args.case or ():
        if name not in cases:
            raise InvalidRequest("case", f"one of {', '.join(cases)}", name)
    with session(args, study_config(args, *SIZES[args.study])) as run:
        config, vocab_size = run.model.config.scheduling, run.model.limits.vocab_size
        results = {}
        for name in args.case or cases:
            study = cases[name](config, vocab_size, args.share)
            results[name] = run_study(run.recorded_engine, study, args.repeats, run.progress)
        run.finish(results, {}, [table for name, one in results.items() for table in study_tables.study(name, one)])


def bench_simulate(args: argparse.Namespace) -> None:
    """Fit the simulator on one workload, and compare it with measured runs of three others."""
    with session(args, study_config(args, 2048, 8192)) as run:
        limits = run.model.limits
        asked = args.requests, args.repeats, args.seed, run.progress
        found = check_simulator(run.recorded_engine, limits.max_model_len, limits.vocab_size, *asked)
        run.finish(found, {}, study_tables.simulator(found))


def bench_what_if(args: argparse.Namespace) -> None:
    """A recorded run under another setting, beside the setting that it had. ``--record`` keeps the simulated run."""
    timeline = _run_of(args.file, args.number)
    changes = dict(parse_change(text, scheduling_of(timeline)) for text in args.set)
    if args.measure:
        with session(args, live_config(args)) as run:
            found = what_if(timeline, changes, make_engine=run.recorded_engine).to_dict()
            run.finish(found, {}, study_tables.counterfactual(found))
        return
    answer = what_if(timeline, changes)
    if args.record:
        save(args.record, answer.timelines["after"])
    found = answer.to_dict()
    _write(args, found, study_tables.counterfactual(found), timeline.info.get("device", "none"))


def bench_serve_url(args: argparse.Namespace) -> None:
    """Drive an OpenAI-compatible server."""
    server = server_at(args.url, args.remote)
    workload = workload_of(args)
    served = remote.ask(server)
    workload = remote.fitted(workload, served, args.vocab_size)
    progress = report.ProgressBar()
    found = remote.drive_url(server, workload, args.served_model or served.model, args.concurrency, progress)
    progress.close()
    _write(args, found, study_tables.served(args.url, found), args.url, workload.describe())


def bench_workload(args: argparse.Namespace) -> None:
    """Write a workload to a file."""
    workload = workload_of(args)
    save_jsonl(args.output, workload)
    report.write(report.box(workload.name, [(name, report.number(v)) for name, v in workload.describe().items()]), "-")


def _run_of(path: str, number: int) -> Timeline:
    """One run of a recording, counted from 1."""
    runs = split_runs(load(path))
    if number > len(runs):
        raise InvalidRequest("number", f"1 to {len(runs)}: the recording holds that many runs", number)
    return runs[number - 1]


def _write(args: argparse.Namespace, found: dict, tables: list[str], device: str, workload: dict | None = None) -> None:
    """Results of a command that loads no model."""
    if args.json:
        meta = {"device": device} | provenance() | {"config": {"workload": workload}}
        report.write(report.document(meta, found), args.json)
    if args.json != "-":
        report.write("\n\n".join(tables), "-")
