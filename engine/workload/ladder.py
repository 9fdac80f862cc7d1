"""The graphs of a worker beside what a run made of them."""

from collections.abc import Sequence

from engine.trace.timed_steps import TimedStep, graph_use

FORMULAS: dict[str, str] = {
    "seconds": "to capture it (decode shapes: with filters too), kernels compiled on the way included",
    "mb": "device memory that the capture took; all graphs share one pool, which the first one pays for",
    "hits": "steps of the recorded pass that ran in it",
    "padding": "tokens that these steps computed for nobody",
    "waste": "padding / (padding + tokens computed)",
}


def ladder(graphs: Sequence[dict], steps: Sequence[TimedStep]) -> list[dict]:
    """One entry per shape: what its capture cost (None where nothing was captured), and its hits, padding and waste.

    ``tokens`` 0 stands for steps that ran eagerly.
    """
    used = {(use["kind"], use["tokens"]): use for use in graph_use(steps)}
    captured = {(graph["kind"], graph["tokens"]): graph for graph in graphs}
    return [_entry(key, captured.get(key), used.get(key)) for key in sorted(used.keys() | captured.keys())]


def _entry(key: tuple[str, int], graph: dict | None, use: dict | None) -> dict:
    kind, tokens = key
    graph = graph or {"seconds": None, "mb": None, "error": None}
    use = use or {"hits": 0, "padding": 0, "computed": 0}
    return {
        "kind": kind,
        "tokens": tokens,
        "seconds": graph["seconds"],
        "mb": graph["mb"],
        "hits": use["hits"],
        "padding": use["padding"],
        "waste": use["padding"] / max(1, use["padding"] + use["computed"]),
        "error": graph["error"],
    }
