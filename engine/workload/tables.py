"""What ``bench throughput`` and ``bench latency`` print: each number with its formula beside it."""

from collections.abc import Mapping, Sequence

from engine.workload import bench, ladder, latency, mixed, stages
from engine.workload.check import FORMULAS as CHECKED
from engine.workload.kv_accuracy import FORMULAS as ACCURACY
from engine.workload.report import box, metric_rows, number


def throughput_tables(title: str, results: dict) -> list[str]:
    """The metrics, where the rest of the limit went, the graphs, the machine, and what was checked and compared."""
    tables = [box(title, metric_rows(results, bench.FORMULAS))]
    if "waterfall" in results:
        tables += waterfall_table(results["waterfall"])
    if any(entry["tokens"] for entry in results["graphs"]):
        tables += ladder_table(results["graphs"])
    if "machine" in results:
        tables.append(box("Measured in this run", [(name, number(v)) for name, v in results["machine"].items()]))
    if "check" in results:
        tables += check_table(results["check"])
    if "kv_accuracy" in results:
        tables.append(box("8-bit KV against the model's own dtype", metric_rows(results["kv_accuracy"], ACCURACY)))
    if "ratio" in results:
        tables.append(box("transformers", [(key, number(value)) for key, value in results["transformers"].items()]))
        tables.append(f"{number(results['ratio'])} times the output throughput of the peer in this run.")
    return tables


def waterfall_table(result: dict) -> list[str]:
    """From the limit down to the recorded pass: seconds and tokens/s of each loss."""
    rows = [("", "seconds", "tok/s", "formula")]
    rows.append(("limit", number(result["floor_s"]), number(result["limit"]), "every step at its component floor"))
    for line in result["lines"]:
        rows.append((line["name"], number(line["seconds"]), number(0.0 - line["tokens_per_s"]), line["formula"]))
    rows.append(("recorded pass", number(result["wall_s"]), number(result["output_throughput"]), "sum of the above"))
    shares = result["profiled"]
    note = "A line of s seconds costs limit x s / wall tokens/s. Below 0: faster than its floor was estimated."
    if shares is not None:
        note += f" Shares of kernels: one decode step of {shares['rows']} rows at context {shares['context']:,}."
    return [box("Where the rest of the limit went", rows), note]


def ladder_table(entries: Sequence[dict]) -> list[str]:
    """One line for each graph, and one for eager steps."""
    names = ("kind", "tokens", "seconds", "mb", "hits", "padding", "waste")
    rows = [names]
    for entry in entries:
        cells = {name: number(entry[name]) for name in names} | ({} if entry["tokens"] else {"tokens": "eager"})
        rows.append(tuple(cells[name] for name in names))
    failed = [f"{entry['kind']} {entry['tokens']}: {entry['error']}" for entry in entries if entry["error"]]
    return [box("CUDA graphs", rows), _words(ladder.FORMULAS), *failed]


def check_table(result: Mapping[str, object]) -> list[str]:
    """The check in one sentence, then its numbers."""
    agreed = f"{result['agreed']:,} of {result['tokens']:,} tokens of {result['requests']} answers"
    gap = f"their logits lie within {number(result['logit_gap'])} standard deviations, KL {number(result['kl'])} nats"
    words = f"Recomputed with the plain references: {agreed} are the same choice; {gap}."
    return [words, box("check", metric_rows(result, CHECKED))]


def latency_tables(entries: Sequence[dict]) -> list[str]:
    """One line for each number of rows."""
    names = tuple(name for name in entries[0] if name != "output_throughput")
    rows = [names, *[tuple(number(entry[name]) for name in names) for entry in entries]]
    return [box("Decode step", rows), _words(latency.FORMULAS)]


def mixed_table(entry: dict) -> str:
    """Each figure of a mixed step beside its formula."""
    return box("Mixed step", metric_rows(entry, mixed.FORMULAS))


def stages_table(entries: Sequence[dict]) -> str:
    """One line for each stage, then what its numbers mean."""
    names = ("stage", *stages.FORMULAS)
    rows = [names, *[tuple(number(entry[name]) for name in names) for entry in entries]]
    return box("From transformers to this engine", rows) + "\n" + _words(stages.FORMULAS)


def _words(formulas: Mapping[str, str]) -> str:
    return "\n".join(f"{name}: {words}" for name, words in formulas.items())
