"""One function per bench that needs no model: the kernels, the machine, the host. Each takes the parsed arguments and
writes its results."""

import argparse
from datetime import UTC, datetime

from engine.command_setup import on_cuda
from engine.provenance import device_name, provenance
from engine.workload import host, report
from engine.workload.calibrate import machine_limits


def bench_host(args: argparse.Namespace) -> None:
    """What a step costs the host against rows, waiting requests and blocks. No model, no device."""
    progress = report.ProgressBar()
    results = host.host_costs(progress=progress)
    progress.close()
    if args.json:
        report.write(report.document({"device": "none"} | provenance(), results), args.json)
    if args.json != "-":
        report.write("\n\n".join(report.host_tables(results)), "-")


def bench_kernels(args: argparse.Namespace) -> None:
    """Check and time the fused kernels. No model."""
    from engine.workload.kernel_bench import kernel_bench

    device, progress = _device(args), report.ProgressBar()
    if args.tune:
        from engine.workload import kernel_tune

        tuned = kernel_tune.table(kernel_tune.tune(args.tune, device, progress))
        progress.close()
        return report.write(tuned, "-")
    entries, ceilings = kernel_bench(device, args.kernel, progress)
    progress.close()
    if args.json:
        meta = _bare_meta(device) | {"config": {"ceilings": ceilings.to_dict()}}
        report.write(report.document(meta, entries), args.json)
    if args.json != "-":
        report.write("\n\n".join(report.kernel_tables(entries, ceilings.to_dict())), "-")


def bench_machine(args: argparse.Namespace) -> None:
    """Bandwidth, matmul peak by format and what a launch costs. No model."""
    device, progress = _device(args), report.ProgressBar()
    found = machine_limits(device, progress)
    progress.close()
    if args.json:
        report.write(report.document(_bare_meta(device), found), args.json)
    if args.json != "-":
        flat = found | {f"matmul {dtype}": rate for dtype, rate in found["matmul_flops"].items()}
        rows = [(name, report.number(value)) for name, value in flat.items() if name != "matmul_flops"]
        report.write(report.box(device_name(device), rows), "-")


def _device(args: argparse.Namespace) -> str:
    """``--device`` of a command without a model."""
    return args.device if args.device != "auto" else "cuda" if on_cuda("auto") else "cpu"


def _bare_meta(device: str) -> dict:
    """The facts of a run without a model."""
    return {"device": device_name(device), "date": datetime.now(UTC).isoformat(timespec="seconds")} | provenance()
