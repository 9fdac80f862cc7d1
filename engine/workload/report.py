"""What a benchmark says: one JSON document, or boxed tables with the formula of each metric beside it."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from engine.trace.gain import FACTORS
from engine.workload import host

Row = Sequence[str]


def document(meta: dict, results: object) -> str:
    """``{"meta": ..., "results": ...}``, indented. Raises ``ValueError`` for NaN: a missing number is null."""
    return json.dumps({"meta": meta, "results": results}, indent=1, allow_nan=False)


def write(text: str, where: str) -> None:
    """Write to a file, or to standard output for "-"."""
    if where == "-":
        sys.stdout.write(text + "\n")
    else:
        Path(where).write_text(text + "\n", encoding="utf-8")


def box(title: str, rows: Sequence[Row]) -> str:
    """A titled table: first column to the left, all others but a last column of words to the right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(_cell(row, column, widths) for column in range(len(row))).rstrip() for row in rows]
    width = max(len(title) + 4, *map(len, lines))
    head = f" {title} ".center(width, "=")
    return "\n".join([head, *lines, "=" * width])


def metric_rows(values: dict, formulas: dict[str, str]) -> list[Row]:
    """(name, number, formula) for each metric that has a formula, in the formulas' order."""
    return [(name, number(values[name]), formulas[name]) for name in formulas if name in values]


def number(value: object) -> str:
    """A number as a person reads it: whole ones with separators, others with four significant digits."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return ", ".join(f"{name} {number(part)}" for name, part in value.items())
    if not isinstance(value, float):
        return f"{value:,}" if isinstance(value, int) else str(value)
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def race_tables(results: dict) -> list[str]:
    """The schedulers side by side, then the factors of the gain beside their predictions."""
    runs = results["schedulers"]
    names = ("output_throughput", "duration_s", "median_ttft_ms", "p99_ttft_ms", "median_e2el_ms", "p99_itl_ms")
    head = ("scheduler", "tok/s", "seconds", "TTFT p50 ms", "p99", "E2EL p50 ms", "ITL p99 ms", "useful %", "warm-up s")
    rows = [head, *[_race_row(name, run, names) for name, run in runs.items()]]
    tables = [box("The same requests, four ways to batch them", rows)]
    if results["factors"]:
        lines = [("factor", "measured", "predicted", "formula")]
        for name, words in FACTORS.items():
            pair = (number(results["factors"][name]), number(results["predicted_factors"][name]))
            lines.append((name.replace("_", " "), *pair, words))
        lines.append(("gain", number(results["gain"]), "", "product of the factors: in-flight over padded static"))
        lines.append(("bound", number(results["bound"]), "", "E[max of a group] / E[length]: row waste alone"))
        tables.append(box("Where the gain comes from", lines))
    same = "identical" if results["tokens_identical"] else "NOT identical (low precision: see first_divergence)"
    return [*tables, f"Greedy tokens of all schedulers and repeats: {same}."]


def host_tables(results: dict) -> list[str]:
    """One line for each load, then growth and formulas."""
    names = ("rows", "waiting", "blocks", "record", *host.FORMULAS)
    rows = [names, *[tuple(number(entry[name]) for name in names) for entry in results["loads"]]]
    grown = [(name, number(ratio)) for name, ratio in results["growth"].items()]
    words = [f"{name}: {formula}" for name, formula in host.FORMULAS.items()]
    return [box("Host time of a step of pure decode, in us", rows), box("Growth of the median step", grown), *words]


def kernel_tables(entries: Sequence[dict], ceilings: dict[str, float]) -> list[str]:
    """One line for each kernel and shape, then the ceilings of the run."""
    rows = [("kernel", "shape", "us", "GB/s or TFLOP/s", "of ceiling", "error", "peers: us (times ours)")]
    for entry in entries:
        rate = entry.get("gb_s", entry.get("tflop_s"))
        beside = [f"{peer} {us:.2f} ({us / entry['us']:.2f}x)" for peer, us in entry["peers"].items()]
        numbers = [number(float(value)) for value in (entry["us"], rate, entry["of_ceiling"], entry["max_rel_err"])]
        rows.append((entry["kernel"], entry["shape"], *numbers, ", ".join(beside) or "-"))
    measured = [(name, number(value)) for name, value in ceilings.items()]
    return [box("Kernels", rows), box("Measured in this run", measured)]


class ProgressBar:
    """One line on standard error: what runs and how far it is. On a terminal it redraws itself."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self.stream = stream or sys.stderr
        self.live = self.stream.isatty()
        self.last = ""

    def __call__(self, what: str, share: float) -> None:
        """Show ``share`` (0 to 1) of ``what``."""
        if self.live:
            filled = round(24 * min(1.0, share))
            self.stream.write(f"\r[{'#' * filled:<24}] {100 * share:3.0f} %  {what}\x1b[K")
        elif what != self.last:
            self.stream.write(f"{what}\n")
        self.last = what
        self.stream.flush()

    def close(self) -> None:
        """Leave the line."""
        if self.live and self.last:
            self.stream.write("\r\x1b[K")
            self.stream.flush()


def _race_row(name: str, run: dict, names: Sequence[str]) -> Row:
    steps = run["row_steps"]
    useful = 100 * steps["useful"] / max(1, sum(steps[kind] for kind in ("useful", "padded", "late", "idle")))
    return (name, *[number(run[key]) for key in names], number(useful), number(run["warm_up_s"]))


def _cell(row: Row, column: int, widths: Sequence[int]) -> str:
    last_words = column == len(row) - 1 and len(row) > 2 and not row[column][:1].isdigit()
    return row[column].ljust(widths[column]) if column == 0 or last_words else row[column].rjust(widths[column])
