"""Who else can run a race: the same requests under settings that batching alone does not show, and other engines.

In-flight batching throughout. The two capacity policies have a pool of half the demand, for with room enough they are
the same; chunks share a small budget with the decodes, whole prompts have the race's own budget.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from engine.errors import InvalidRequest
from engine.loading import LoadedModel
from engine.trace.recorder import Sink
from engine.workload.drive import Progress, silent
from engine.workload.http_stream import server_at
from engine.workload.race import run_laps
from engine.workload.race_spec import RaceSpec, prepared
from engine.workload.remote import ask, drive_url, fitted
from engine.workload.studies import peak_blocks

CHUNK = 16  # tokens that a step may compute besides one for each row
SETTINGS = ("max-utilization", "guaranteed-no-evict", "chunked", "whole")
IN_FLIGHT = "in-flight"  # the race's own run, which the others stand beside
TRANSFORMERS = "transformers"  # ``generate`` on static batches: plain PyTorch


@dataclass(frozen=True, slots=True)
class Contestants:
    """Those asked for, by kind: settings of our engine, the peer in this process, and servers by URL."""

    settings: tuple[str, ...]
    transformers: bool
    urls: tuple[str, ...]


def contestants(names: Sequence[str], remote: bool = False) -> Contestants:
    """Sort out who was asked for.

    Raises:
        InvalidRequest: nobody is called so, or a URL leads to another machine and ``remote`` does not say that it may.
    """
    urls = tuple(name for name in names if "://" in name)
    for url in urls:
        server_at(url, remote)
    for name in names:
        if name not in (*SETTINGS, TRANSFORMERS, *urls):
            raise InvalidRequest("contestants", f"some of {', '.join(SETTINGS)}, {TRANSFORMERS}, or a URL", name)
    return Contestants(tuple(name for name in names if name in SETTINGS), TRANSFORMERS in names, urls)


def race_settings(
    loaded: LoadedModel, spec: RaceSpec, names: Sequence[str], progress: Progress = silent, sinks: Sequence[Sink] = ()
) -> dict[str, dict]:
    """The race's requests under each of these settings of our engine: described as ``race`` describes a scheduler."""
    workload, sizes = prepared(loaded, spec)
    roomy = replace(loaded.config.scheduling, **sizes)
    longest = -(-workload.longest // roomy.block_size)
    tight = max(longest, peak_blocks(workload.items, roomy) // 2)
    overrides = {
        "max-utilization": {"capacity": "max-utilization", "pool_blocks": tight},
        "guaranteed-no-evict": {"capacity": "guaranteed-no-evict", "pool_blocks": tight},
        "chunked": {"chunked_prefill": True, "token_budget": spec.rows + CHUNK},
        "whole": {"chunked_prefill": False},
    }
    runs = {name: sizes | {"batching": "in-flight"} | overrides[name] for name in names}
    return run_laps(loaded.new_engine, workload.items, runs, spec.repeats, progress, sinks)


def race_url(
    url: str, spec: RaceSpec, vocab_size: int, remote: bool = False, progress: Progress = silent
) -> dict[str, object]:
    """The race's requests on a server, at most ``spec.rows`` under way: what ``drive_url`` says, and its model.

    Raises:
        ServerError: nothing answers there, or every request failed.
    """
    server = server_at(url, remote)
    served = ask(server)
    workload = fitted(spec.workload(vocab_size), served, vocab_size)
    return {"model": served.model} | drive_url(server, workload, served.model, spec.rows, progress)


def compared(results: Mapping) -> list[dict]:
    """The contestants of a race's results beside its in-flight run, fastest first.

    Returns:
        For each ``name``, ``kind`` (ours, transformers or server), ``output_throughput``, ``times`` in-flight's,
        latencies (None where nobody saw them), ``preemptions``, ``capped`` (stopped at its time limit) and ``failed``.
    """
    own = results["schedulers"]["in_flight"]
    found = {IN_FLIGHT: own} | results["contestants"]
    lines = [_line(name, one, own["output_throughput"]) for name, one in found.items()]
    return sorted(lines, key=lambda line: -line["output_throughput"])


def _line(name: str, one: Mapping, own: float) -> dict:
    kind = TRANSFORMERS if name == TRANSFORMERS else "server" if "://" in name else "ours"
    rate = one["output_throughput"]
    figures = {figure: one.get(figure) for figure in ("median_ttft_ms", "p99_itl_ms", "preemptions")}
    flags = {"capped": one.get("capped", False), "failed": one.get("failed", 0)}
    return {"name": name, "kind": kind, "output_throughput": rate, "times": rate / own} | figures | flags
