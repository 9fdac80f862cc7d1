"""The tables under the figures of the Arena: every number that a figure shows, for those who do not see it."""

from engine.trace.gain import FACTORS
from engine.workload.race import SCHEDULERS
from engine.workload.verdict import P99_SAMPLES, shares
from pages.parts.arena.numbers import milliseconds, percent, seconds, times
from pages.parts.words import t

LATENCIES = ("ttft", "tpot", "e2el")


def run_table(results: dict) -> dict:
    """The lanes as a table."""
    heads = ("scheduler", "tps", "seconds", "decode", "prefill", "padded", "idle", "useful", "warm_up", "repeats")
    lines = []
    for name, run in _runs(results):
        steps = run["row_steps"]
        counts = [f"{steps[kind]:,}" for kind in ("decode", "prefill", "padded", "idle")]
        repeats = " · ".join(seconds(each) for each in run["repeats_s"])
        useful = f"{percent(shares(run)['useful'])} %"
        speed, warm_up = f"{run['output_throughput']:,.1f}", seconds(run["warm_up_s"]) if run["warm_up_s"] else "–"
        lines.append([t(f"arena.name.{name}"), speed, seconds(run["duration_s"]), *counts, useful, warm_up, repeats])
    return {"of": "lanes", "heads": [t(f"arena.th.{head}") for head in heads], "lines": lines, "note": ""}


def factor_table(results: dict) -> dict:
    """The factors as a table: measured, predicted, and how far apart."""
    heads = [t(f"arena.col.{head}") for head in ("factor", "measured", "predicted", "off")]
    lines = []
    for name in FACTORS if results["factors"] else ():
        measured, predicted = results["factors"][name], results["predicted_factors"][name]
        off = f"{100 * (measured / predicted - 1):+.1f} %"
        lines.append([t(f"arena.factor.{name}"), times(measured), times(predicted), off])
    return {"of": "factors", "heads": heads, "lines": lines, "note": ""}


def latency_table(results: dict) -> dict:
    """Percentiles of each latency; p99 only where there are samples for it."""
    heads = [t("arena.th.scheduler")]
    heads += [f"{t(f'arena.th.{metric}')} {rank}" for metric in LATENCIES for rank in ("p50", "p90", "p99")]
    lines, fewest = [], None
    for name, run in _runs(results):
        line = [t(f"arena.name.{name}")]
        for metric in LATENCIES:
            count = run["samples"][metric]
            fewest = count if fewest is None else min(fewest, count)
            worst = run[f"p99_{metric}_ms"] if count >= P99_SAMPLES else None
            line += [milliseconds(each) for each in (run[f"median_{metric}_ms"], run[f"p90_{metric}_ms"], worst)]
        lines.append(line)
    note = t("arena.p99_note", least=P99_SAMPLES, n=fewest) if fewest is not None and fewest < P99_SAMPLES else ""
    return {"of": "latency", "heads": heads, "lines": lines, "note": note}


def _runs(results: dict) -> list[tuple[str, dict]]:
    return [(name, results["schedulers"][name]) for name in SCHEDULERS if name in results["schedulers"]]
