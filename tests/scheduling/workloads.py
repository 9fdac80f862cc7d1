"""Random workloads for the oracle: small pools, small budgets, shared prefixes, staggered arrivals, stops and aborts.

A seed picks the policies: consecutive seeds go through ``POLICIES``, each time with another entry of ``MORE_POLICIES``,
so that 15,552 seeds meet every combination once.
"""

import itertools
import random
from dataclasses import dataclass, field

from engine.config import SchedulingConfig
from engine.request import Request, RequestState, SamplingParams
from engine.trace.events import Cause
from tests.scheduling.oracle import EOS, VOCAB, reference_answer
from tests.scheduling.simulation import Simulation

POLICIES = list(
    itertools.product(
        ("in-flight", "dynamic", "static", "static-shrinking"),
        ("max-utilization", "guaranteed-no-evict"),
        ("fcfs", "equal"),
        (True, False),  # prefix cache
        (0, 1, 2),  # steps in flight
    )
)
MORE_POLICIES = list(
    itertools.product(
        ("lifo", "lowest-priority", "cheapest"),
        ("lru", "priority", "flat-lru"),
        (("priority", 0.0), ("priority", 0.003), ("deadline", 0.0)),  # queue order, aging
        (False, True),  # wait for a prefix
        (None, "always", "cheaper"),  # swap, None: no host blocks
    )
)


@dataclass
class Workload:
    """A configuration, and what happens in which round."""

    config: SchedulingConfig
    arrivals: dict[int, list[Request]] = field(default_factory=dict)  # round -> requests
    aborts: dict[int, list[int]] = field(default_factory=dict)  # round -> request ids, known or not
    fails: set[int] = field(default_factory=set)  # rounds whose launch fails
    resets: set[int] = field(default_factory=set)  # rounds that drop the prefix cache
    stop_pair: tuple[int, int] | None = None
    lags: list[int] = field(default_factory=lambda: [0])  # steps left in flight, round after round, repeated


def random_config(draw: random.Random, policy: int, more: int) -> SchedulingConfig:
    """Tiny limits around one entry of ``POLICIES`` and one of ``MORE_POLICIES``. Most blocks are small."""
    batching, capacity, chunking, prefix_cache, depth = POLICIES[policy]
    preemption, eviction, (queue_order, aging_s), wait_for_prefix, swap = MORE_POLICIES[more]
    rows = draw.choice((1, 2, 3, 4, 6))
    chunked_prefill = draw.random() < 0.8
    budget = rows + draw.randint(0, 12) + (0 if chunked_prefill else 12)
    block_size = draw.randint(1, 8) if draw.random() < 0.95 else draw.choice((16, 64, 256))
    return SchedulingConfig(
        pool_blocks=1 + draw.randint(10, 44) // block_size,
        block_size=block_size,
        max_num_seqs=rows,
        token_budget=budget,
        max_model_len=draw.choice((12, 30, 60)),
        watermark=draw.choice((0.0, 0.0, 0.01, 0.2)),
        batching=batching,
        capacity=capacity,
        chunking=chunking,
        chunked_prefill=chunked_prefill,
        prefix_cache=prefix_cache,
        preemption=preemption,
        eviction=eviction,
        queue_order=queue_order,
        aging_s=aging_s,
        wait_for_prefix=wait_for_prefix,
        window_ms=draw.choice((0.0, 3.0, 10.0)),
        preferred_sizes=draw.choice(((), (2,), (2, 4))),
        steps_in_flight=depth,
        graph_buckets=draw.choice(((), (1, 2, 4, 8, 16))),
        host_blocks=draw.choice((1, 3, 8, 40)) if swap else 0,
        swap=swap or "never",
        swap_us_per_token=1.0,
        prefill_us_per_token=draw.choice((0.3, 0.8, 2.0)),
    )


def seeded_workload(seed: int) -> Workload:
    """The workload of a seed."""
    policy, turn = seed % len(POLICIES), seed // len(POLICIES)
    return random_workload(random.Random(seed), policy, (turn * 23 + policy * 7) % len(MORE_POLICIES))


def random_workload(draw: random.Random, policy: int, more: int) -> Workload:
    """Up to 14 requests with what happens to them."""
    work = Workload(random_config(draw, policy, more))
    capacity = min(work.config.pool_blocks * work.config.block_size, work.config.max_model_len)
    prefixes = [[draw.randrange(VOCAB) for _ in range(16)] for _ in range(2)]
    round_ = 0
    for number in range(draw.randint(2, 14)):
        request = _request(draw, number, prefixes, capacity)
        work.arrivals.setdefault(round_, []).append(request)
        round_ += draw.choice((0, 0, 0, 1, 6))
    for _ in range(draw.choice((0, 0, 1, 3))):
        work.aborts.setdefault(draw.randint(0, 30), []).append(draw.randint(0, 10))
    if draw.random() < 0.1:
        work.fails.add(draw.randint(0, 20))
    if draw.random() < 0.1:
        work.resets.add(draw.randint(0, 20))
    work.lags = [draw.randint(0, work.config.steps_in_flight) for _ in range(7)]
    if draw.random() < 0.3:
        work.stop_pair = (draw.randrange(VOCAB), draw.randrange(VOCAB))
    return work


def _request(draw: random.Random, number: int, prefixes: list[list[int]], capacity: int) -> Request:
    shared = draw.choice(prefixes)[: draw.choice((0, 0, 0, 4, 8, 16))]
    prompt = (shared + [draw.randrange(VOCAB) for _ in range(draw.randint(1, 6))])[
        : max(1, capacity * draw.choice((1, 2, 2, 2)) // 2 - 1)
    ]
    room = max(1, capacity - len(prompt))
    params = SamplingParams(
        stop_token_ids=draw.choice(((), (), (), (3,), (3, EOS))),
        ignore_eos=draw.random() < 0.8,
        min_tokens=draw.choice((0, 0, 3)),
        forced_output_length=draw.choice((None, None, None, draw.randint(1, 8))),
    )
    max_tokens = min(room + 1, draw.choice((draw.randint(1, 8), draw.randint(1, 40))))
    if params.forced_output_length is not None:
        max_tokens = max(max_tokens, params.forced_output_length)
    return Request(
        number, prompt, params, max_tokens, seed=0, priority=draw.choice((0, 0, 0, -1, 2)), salt=draw.choice((0, 0, 1))
    )


def run(work: Workload, checks: bool = True) -> Simulation:
    """Run a workload to its end and check every answer."""
    sim = Simulation(work.config, work.stop_pair, itertools.cycle(work.lags).__next__, checks)
    last = max([*work.arrivals, *work.aborts, *work.fails, *work.resets])
    for round_ in itertools.count():
        _interfere(sim, work, round_)
        if not sim.round() and round_ > last:
            break
        assert round_ < 5_000, f"no end: {sim.scheduler.snapshot()}"
    check_answers(sim)
    return sim


def _interfere(sim: Simulation, work: Workload, round_: int) -> None:
    """What callers do between two steps."""
    for request in work.arrivals.get(round_, ()):
        sim.submit(request)
    for victim in work.aborts.get(round_, ()):
        known = {request.id: request for request in sim.requests}
        if victim in known:
            sim.finish(known[victim], Cause.ABORT)
        else:
            assert not sim.scheduler.finish(victim, Cause.ABORT)
    if round_ in work.resets:
        sim.reset_prefix_cache()
    sim.worker.fail_next = round_ in work.fails


def check_answers(sim: Simulation) -> None:
    """Every request ended; its answer is the one it gets alone (a prefix of it when it was cut short)."""
    assert sim.free == sim.config.pool_blocks and not sim.scheduler.has_work
    for request in sim.requests:
        if request.state is RequestState.REFUSED:
            assert request.id in sim.refused and not request.output_ids
            continue
        expected = reference_answer(request, sim.config.max_model_len, sim.stop_pair)
        if sim.ended[request.id] in (Cause.ABORT, Cause.ERROR):
            expected = expected[: request.num_output_tokens]
        assert request.output_ids == expected, f"request {request.id} got {request.output_ids}, alone {expected}"
