"""``/metrics`` in Prometheus' text format, read from the trace like everything else that is shown."""

from collections.abc import Callable, Iterator

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from engine.driver import Driver
from engine.serving.guard import guarded
from engine.trace.state import State

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
COUNTERS = {  # field of the folded totals: name, help
    "arrived": ("requests_arrived_total", "Requests that entered the queue"),
    "finished": ("requests_finished_total", "Requests that ended by themselves"),
    "aborted": ("requests_aborted_total", "Requests ended by a user"),
    "refused": ("requests_refused_total", "Requests that could never fit"),
    "output_tokens": ("output_tokens_total", "Tokens generated"),
    "prefill_tokens": ("prefill_tokens_total", "Prompt tokens computed for the first time"),
    "recomputed_tokens": ("recomputed_tokens_total", "Tokens computed again after a preemption"),
    "cached_tokens": ("cached_tokens_total", "Tokens got from a prefix hit"),
    "preemptions": ("preemptions_total", "Running requests that lost their blocks"),
    "evictions": ("evictions_total", "Cached blocks that lost their content"),
}


def routes(get_driver: Callable[[], Driver]) -> list[Route]:
    """The route ``/metrics``. Counters begin anew with each run of the engine, as Prometheus expects of a restart."""

    async def metrics(request: Request) -> Response:
        return PlainTextResponse(render(get_driver()), media_type=CONTENT_TYPE)

    return [Route("/metrics", guarded(metrics))]


def render(driver: Driver) -> str:
    """The exposition of one driver."""
    lines = [*_metric("up", "gauge", "1 while the engine answers", int(driver.state in ("ready", "paused")))]
    lines += _metric("paused", "gauge", "1 while the engine stands still", int(driver.state == "paused"))
    live = driver.trace.live if driver.trace else None
    if live is not None:
        lines += _of_state(live.state_at(live.last_seq))
    return "\n".join(lines) + "\n"


def _of_state(state: State) -> Iterator[str]:
    gauges = {
        "requests_running": ("Requests that hold a row", len(state.running)),
        "requests_waiting": ("Requests in the queue, preempted ones included", len(state.waiting)),
        "kv_blocks_total": ("Blocks of the KV pool", state.limit("pool_blocks")),
        "kv_blocks_used": ("Blocks that a request holds", sum(1 for count in state.pool.refs if count)),
        "steps": ("Steps of this run", state.step.number),
    }
    for name, (text, value) in gauges.items():
        yield from _metric(name, "gauge", text, value)
    for field, (name, text) in COUNTERS.items():
        yield from _metric(name, "counter", text, getattr(state.totals, field))


def _metric(name: str, kind: str, text: str, value: float) -> Iterator[str]:
    name = f"flightdeck_{name}"
    yield f"# HELP {name} {text}."
    yield f"# TYPE {name} {kind}"
    yield f"{name} {value}"
