"""Queues: Little's law, batches that form, overload, routing, and what the gain is sensitive to. Simulated with the
engine's own scheduler on a virtual clock where the scheduler matters."""

from collections import OrderedDict
from dataclasses import replace
from random import Random

from engine.config import SchedulingConfig
from engine.trace.step_cost import StepCost
from engine.workload import arrivals, lengths
from engine.workload.items import Item
from engine.workload.simulate import simulate_steps
from lessons.audit.finding import Found, found
from lessons.audit.registry import experiment

COST = StepCost(base=5e-3, per_row=2e-4, per_context=1e-6, prefill_base=0.0, per_token=1e-5)  # s, of a made-up device
GROUP, RATE = 8, 100.0  # requests of a batch, arrivals a second
ROWS, REQUESTS = 8, 64


@experiment("requests/s * seconds in the system (Little)")
def little_table() -> Found:
    """S4-21: both lines of the article's table."""
    before, after = 32 * 0.650, 89 * 0.220
    return found(abs(before / after - 1) < 0.1, before=before, after=after, gain_of_rate=(89 / 32 - 1, "share"))


@experiment("mean wait until the group of B is full, 20,000 Poisson groups; (B - 1) / (2 * rate)", simulated=True)
def formation_delay() -> Found:
    """S0-05, S4-27: what the first of a batch wait for the last."""
    times = arrivals.gamma_arrivals(20_000 * GROUP, RATE, 1.0, seed=0)
    waits = [times[(i // GROUP + 1) * GROUP - 1] - time for i, time in enumerate(times)]
    mean, formula = sum(waits) / len(waits), (GROUP - 1) / (2 * RATE)
    return found(abs(mean / formula - 1) < 0.02, simulated=(mean, "s"), formula=(formula, "s"), batch=GROUP)


@experiment("mean rows of a group behind windows of 0, 10 and 50 ms; the real scheduler, virtual clock", simulated=True)
def window_sizes() -> Found:
    """S0-03: dynamic batching with three windows on one arrival trace."""
    sizes = {f"window_{window}_ms": _mean_group(window) for window in (0, 10, 50)}
    return found(sizes["window_50_ms"] > sizes["window_0_ms"], **sizes)


@experiment("mean rows of a group behind a window of 50 ms, with preferred sizes 4, 8, 16 and without", simulated=True)
def preferred_sizes() -> Found:
    """S4-15, S4-26: a group is released at once when it reaches a preferred size."""
    plain, preferring = _mean_group(50), _mean_group(50, (4, 8, 16))
    return found("partly", without=plain, with_sizes=preferring)


def _mean_group(window_ms: float, preferred: tuple[int, ...] = ()) -> float:
    """Requests that start together under dynamic batching: 100 arrivals a second on a device that is mostly free."""
    times = arrivals.gamma_arrivals(200, RATE, 1.0, seed=1)
    items = [Item([1] * 16, 1, 1, arrival_s=time) for time in times]
    config = _config(batching="dynamic", window_ms=float(window_ms), preferred_sizes=preferred)
    steps, _ = simulate_steps(items, config, replace(COST, base=1e-4, per_row=0.0))
    groups = [facts.chunks for facts in steps if facts.chunks]
    return sum(groups) / len(groups)


@experiment("last answer - last of 300 arrivals, at half and at twice the rate that can be served", simulated=True)
def overload() -> Found:
    """S4-05: the backlog behind the last arrival, below capacity and beyond it."""
    calm, flooded = _backlog_s(0.5), _backlog_s(2.0)
    return found("partly", at_half_load=(calm, "s"), at_double_load=(flooded, "s"), ratio=(flooded / calm, "x"))


def _backlog_s(load: float) -> float:
    """Seconds from the last arrival to the end of the last answer: the backlog that was left."""
    tokens = 32
    capacity = ROWS / (tokens * (COST.base + COST.per_row * ROWS))  # requests a second
    times = arrivals.gamma_arrivals(300, load * capacity, 1.0, seed=2)
    items = [Item([1] * 16, tokens, tokens, arrival_s=time) for time in times]
    _, seconds = simulate_steps(items, _config(), COST)
    return seconds - (times[-1] - times[0])


@experiment(
    "gain at the far value / gain at the usual one: spread 0, rows 32, requests 16, cost per row x 10", simulated=True
)
def sensitivity() -> Found:
    """S1-21: one thing changed at a time."""
    usual = _gain()
    changed = {
        "usual": usual,
        "equal_lengths": _gain(spread=0.0),
        "rows_32": _gain(rows=32),
        "requests_16": _gain(requests=16),
        "dear_rows": _gain(cost=replace(COST, per_row=10 * COST.per_row)),
    }
    widest = max(abs(value / usual - 1) for value in changed.values())
    return found(widest > 0.2, **{name: (value, "x") for name, value in changed.items()})


def _gain(spread: float = 1.0, rows: int = ROWS, requests: int = REQUESTS, cost: StepCost = COST) -> float:
    """Wall time of static over in-flight."""
    items = lengths.race(requests, spread, 0, 512).items
    walls = [simulate_steps(items, _config(rows, batching=way), cost)[1] for way in ("static", "in-flight")]
    return walls[0] / walls[1]


@experiment("hits of 400 requests over 8 prefixes on 2 replicas that hold 4 prefixes each, LRU", simulated=True)
def routing() -> Found:
    """S4-31: a prefix sent to where it lies, beside taking turns."""
    draw = Random(0)
    asked = [draw.randrange(8) for _ in range(400)]
    turns = _hits(asked, lambda place, prefix: place % 2)
    aware = _hits(asked, lambda place, prefix: prefix % 2)
    return found(aware > turns, round_robin=(turns, "share"), prefix_aware=(aware, "share"))


def _hits(asked: list[int], replica_of: object) -> float:
    """Share of requests whose prefix lies on the replica that they are sent to."""
    caches: list[OrderedDict[int, None]] = [OrderedDict(), OrderedDict()]
    hits = 0
    for place, prefix in enumerate(asked):
        cache = caches[replica_of(place, prefix)]
        hits += prefix in cache
        cache[prefix] = None
        cache.move_to_end(prefix)
        if len(cache) > 4:
            cache.popitem(last=False)
    return hits / len(asked)


def _config(rows: int = ROWS, **changed: object) -> SchedulingConfig:
    """A pool that never decides."""
    room = {"pool_blocks": 100_000, "max_num_seqs": rows, "token_budget": 64 * rows, "prefix_cache": False}
    return SchedulingConfig(**(room | changed))
