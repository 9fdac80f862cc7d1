"""One function per command of ``python -m engine``. Each takes the parsed arguments and writes its results.

The engine runs in this process, without the app: what is measured is the engine alone.
"""

import argparse
from typing import get_args

from engine.answers import Delta
from engine.command_setup import Session, bench_config, live_config, on_cuda, race_config, session, workload_of
from engine.config import Quantize
from engine.errors import InvalidRequest
from engine.request import SamplingParams
from engine.workload import bench, lengths, quant_report, report, study_tables
from engine.workload.check import check, drawn
from engine.workload.contestants import TRANSFORMERS, Contestants, contestants, race_settings, race_url
from engine.workload.drive import FAIR, drive
from engine.workload.http_stream import server_at
from engine.workload.items import Workload, fit
from engine.workload.kv_accuracy import kv_accuracy
from engine.workload.ladder import ladder
from engine.workload.latency import latency
from engine.workload.mixed import mixed_items, mixed_step
from engine.workload.race_spec import RaceSpec, prepared, run_race
from engine.workload.remote import ask
from engine.workload.stages import beside, eight_bit_stage, stages
from engine.workload.tables import latency_tables, mixed_table, stages_table, throughput_tables
from engine.workload.waterfall import waterfall

# bench latency: rows, prompt and output tokens. The middle of the answers stands at a context of 1k on CUDA.
CUDA_SWEEP = ([1, 8, 64, 256], 1000, 48)
CPU_SWEEP = ([1, 8], 128, 32)
PEER_SECONDS = 120  # time cap of the peer in a race


def generate(args: argparse.Namespace) -> None:
    """Stream a completion to standard output."""
    params = SamplingParams(
        max_tokens=args.max_tokens,
        temperature=args.temperature,
        top_p=args.top_p,
        top_k=args.top_k,
        stop=tuple(args.stop),
        seed=args.seed,
    )
    deltas: list[Delta] = []
    quiet = args.json == "-"

    def show(delta: Delta) -> None:
        deltas.append(delta)
        if not quiet:
            print(delta.text, end="", flush=True)

    with session(args, live_config(args)) as run:
        engine = run.model.new_engine({}, run.sinks, show)
        run.progress.close()
        request = engine.submit(args.prompt, params)
        engine.run()
        text = "".join(delta.text for delta in deltas)
        results = {"text": text, "token_ids": request.output_ids, "cause": deltas[-1].cause}
        if not quiet:
            print()
        run.finish(results, {}, ())


def bench_race(args: argparse.Namespace) -> None:
    """Race the four schedulers over the same requests."""
    spec = RaceSpec(args.requests, args.rows, args.length_spread, args.seed, args.repeats).validate()
    others = contestants(args.contestants, args.remote)
    for url in others.urls:
        ask(server_at(url, args.remote))  # before the race takes its time
    with session(args, race_config(args)) as run:
        results = run_race(run.model, spec, run.progress, run.sinks)
        workload = spec.workload(run.model.limits.vocab_size)
        tables = report.race_tables(results)
        if args.contestants:
            results["contestants"] = _beside_race(args, run, spec, others)
            tables += study_tables.contestants(results["contestants"])
        run.finish(results, workload.describe(), tables)


def bench_throughput(args: argparse.Namespace) -> None:
    """Tokens/s of a workload, the fraction of the limit, optionally a check and a peer."""
    workload = workload_of(args)
    with session(args, bench_config(args, workload)) as run:
        limits = run.model.limits
        workload = fit(workload, limits.max_model_len, limits.vocab_size)
        measured = bench.throughput(run.make_engine, workload, args.repeats, run.progress, run.sinks, args.concurrency)
        results = measured.results
        results["graphs"] = ladder(run.model.worker.graphs, measured.steps)
        if workload.starts_at_once and args.concurrency is None:  # else the load decides, not the machine
            results |= _beside_limit(run, workload, measured)
        if args.check:
            outputs = measured.recorded.outputs
            results["check"] = check(workload.items, outputs, run.logits, args.check, run.progress)
            if run.model.worker.spec.kv_has_scales:
                texts = [(workload.items[i].prompt_ids, outputs[i]) for i in drawn(len(workload.items), args.check)]
                results["kv_accuracy"] = kv_accuracy(texts, run.kv_logits, run.progress)
        if args.compare:
            results |= _beside_peer(args, run, workload, results["output_throughput"])
        run.finish(results, workload.describe(), throughput_tables(workload.name, results))


def bench_latency(args: argparse.Namespace) -> None:
    """Milliseconds of a decode step over a sweep of rows, beside the floor, with CUDA graphs and without."""
    defaults = CUDA_SWEEP if on_cuda(args.device) else CPU_SWEEP
    given = args.rows, args.prompt_tokens, args.output_tokens
    rows, prompt, output = (default if value is None else value for value, default in zip(given, defaults))
    args.max_num_seqs = args.max_num_seqs or max(rows)
    workload = lengths.fixed(max(rows), 0, prompt, output)
    with session(args, bench_config(args, workload)) as run:
        worker, machine = run.model.worker, run.calibrate().machine
        eagerly = worker.eagerly if worker.graphs else None
        entries = latency(run.make_engine, run.shape, machine, rows, (prompt, output), eagerly, run.progress)
        run.finish(entries, workload.describe(), latency_tables(entries))


def bench_mixed(args: argparse.Namespace) -> None:
    """Milliseconds of a step in which rows decode beside a chunk of a prompt, beside the floor of the union."""
    args.max_num_seqs, args.token_budget = args.decodes + 1, args.decodes + args.chunk
    workload = Workload("mixed", mixed_items(args.decodes, args.chunk, args.context, 10_000), 0)
    with session(args, bench_config(args, workload)) as run:
        sizes = args.decodes, args.chunk, args.context
        entry = mixed_step(run.make_engine, run.shape, run.calibrate().machine, *sizes, run.progress)
        run.finish(entry, workload.describe(), [mixed_table(entry)])


def bench_stages(args: argparse.Namespace) -> None:
    """The same requests through transformers and through this engine, one technique after the other."""
    workload = lengths.race(args.requests, 1.0, args.seed, 1000)
    args.max_num_seqs = args.max_num_seqs or args.rows
    with session(args, bench_config(args, workload)) as run:
        workload = fit(workload, run.model.limits.max_model_len, run.model.limits.vocab_size)
        worker = run.model.worker
        eagerly = worker.eagerly if worker.graphs else None
        entries = stages(run.make_engine, workload.items, run.logits, eagerly, run.progress)
        own_kv = not worker.spec.kv_has_scales
        peer = _peer(run, workload, run.model.config.scheduling.max_num_seqs, args.compare_seconds)
        first = {"stage": "transformers", "output_throughput": peer["output_throughput"], "agreed": None, "kl": None}
        entries = beside([first, *entries, *([_eight_bit(args, workload)] if own_kv else [])])
        run.finish(entries, workload.describe(), [stages_table(entries)])


def bench_quantize(args: argparse.Namespace) -> None:
    """What a weight format costs in accuracy: the quantised model answers, then the dense one judges each token."""
    if args.quantize is None:
        raise InvalidRequest("--quantize", f"one of {', '.join(get_args(Quantize))}")
    workload = lengths.fixed(args.requests, args.seed, args.prompt_tokens, args.output_tokens)
    with session(args, bench_config(args, workload)) as run:
        limits = run.model.limits
        items = fit(workload, limits.max_model_len, limits.vocab_size).items
        outputs = drive(run.make_engine(FAIR, run.sinks), items, "answering", run.progress).outputs
        stored = {tuple(i.prompt_ids): run.logits(i.prompt_ids, out, None).cpu() for i, out in zip(items, outputs)}
        errors, size = run.model.worker.model.quant_errors, run.model.worker.spec.weight_bytes
        run.close_model()
        plain = argparse.Namespace(**vars(args) | {"quantize": None, "record": None})
        with session(plain, bench_config(plain, workload)) as dense:
            judged = quant_report.beside(stored, lambda *asked: dense.logits(*asked).cpu())
            results = check(items, outputs, judged, len(items), run.progress)
            results |= {"weight_bytes": size, "dense_bytes": dense.model.worker.spec.weight_bytes}
        results |= {"format": args.quantize, "worst": max(errors.values()), "layers": quant_report.by_layer(errors)}
        run.finish(results, workload.describe(), quant_report.tables(results))


def serve(args: argparse.Namespace) -> None:
    """Serve /v1 and /metrics without the app."""
    from engine.serving.standalone import run

    run(live_config(args), args.host, args.port)


def trace(args: argparse.Namespace) -> None:
    """Export a recording."""
    from engine.trace.chrome import to_chrome
    from engine.trace.export import to_csv, to_jsonl
    from engine.trace.files import load
    from engine.trace.replay import to_html

    records = load(args.file)
    tables = {"csv": lambda records: to_csv(records, args.table)}
    exporters = tables | {"jsonl": to_jsonl, "chrome": to_chrome, "html": to_html}
    report.write(exporters[args.to](records).rstrip("\n"), args.output)


def _beside_race(args: argparse.Namespace, run: Session, spec: RaceSpec, others: Contestants) -> dict:
    """The same requests through the other contestants; transformers last, when our model has left the device."""
    loaded, progress = run.model, run.progress
    workload, _ = prepared(loaded, spec)
    found = race_settings(loaded, spec, others.settings, progress, run.sinks)
    for url in others.urls:
        found[url] = race_url(url, spec, loaded.limits.vocab_size, args.remote, progress)
    if others.transformers:
        found[TRANSFORMERS] = _peer(run, workload, spec.rows, PEER_SECONDS)
    return found


def _eight_bit(args: argparse.Namespace, workload: Workload) -> dict:
    """The last stage: the model once more, with an int8 pool."""
    again = argparse.Namespace(**vars(args) | {"kv_dtype": "int8", "record": None})
    with session(again, bench_config(again, workload)) as run:
        return eight_bit_stage(run.make_engine, workload.items, run.kv_logits, run.progress)


def _beside_limit(run: Session, workload: Workload, measured: bench.Measured) -> dict:
    """The limit of this machine, the fraction reached, and where the rest went."""
    machine = run.calibrate()
    rows = run.model.config.scheduling.max_num_seqs
    results = bench.beside_limit(measured.results, workload, run.shape, machine.machine, rows)
    shares = run.decode_shares(measured.steps)
    lost = waterfall(measured.steps, measured.recorded.seconds, results["floor"], run.shape, machine.machine, shares)
    return results | {"machine": machine.to_dict(), "waterfall": lost}


def _beside_peer(args: argparse.Namespace, run: Session, workload: Workload, ours: float) -> dict:
    """The peer's figures and the ratio."""
    rows = run.model.config.scheduling.max_num_seqs
    peer = _peer(run, workload, rows, args.compare_seconds)
    return {args.compare: peer, "ratio": ours / peer["output_throughput"]}


def _peer(run: Session, workload: Workload, rows: int, seconds: float) -> dict:
    """transformers on the same requests, in static batches of ``rows``. Our model leaves the device first: both do not
    fit."""
    from engine.workload.peers import generate_static, peer_model

    spec, config = run.model.worker.spec, run.model.config
    run.close_model()
    run.progress("loading transformers", 0.0)
    model = peer_model(spec, config.worker, run.device)
    return generate_static(model, workload.items, rows, seconds, run.progress)
