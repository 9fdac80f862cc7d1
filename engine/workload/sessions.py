"""Workloads whose prompts share prefixes: sessions that grow turn by turn, and many clients of unequal rates."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace
from heapq import heapify, heapreplace
from random import Random

from engine.errors import InvalidRequest
from engine.workload.arrivals import gamma_arrivals
from engine.workload.items import Item, Workload
from engine.workload.lengths import AZURE_CHAT, AZURE_CODE, SHAREGPT, draw
from engine.workload.prefixes import random_ids

Spoken = Sequence[Sequence[tuple[int, int]]]  # for each session and turn: tokens asked, tokens answered
BLOCK, LONGEST_SYSTEM = 16, 1 << 14
TURN_TOKENS = (32, 96)  # what a user adds to a session
ANSWER_TOKENS = (64, 192)
KINDS = (AZURE_CHAT, SHAREGPT, AZURE_CODE)  # of clients, in turn
SYSTEM_TOKENS = (32, 512)  # of a client's own system prompt


def sessions(
    requests: int, seed: int, prefix_ratio: float = 0.6, turns: int = 4, question: tuple[int, int] = TURN_TOKENS
) -> Workload:
    """Sessions of ``turns`` turns behind one shared system prompt; a prompt repeats all that its session said before.

    ``prefix_ratio`` is the share of all prompt tokens that an earlier prompt has already brought in, in whole blocks of
    16 as a prefix cache counts them; the system prompt is made as long as that takes. The first turns of all sessions
    come first, then the second ones, and so on: by then the turn before has been answered. What stands for an answer in
    a later prompt are random ids.

    Raises:
        InvalidRequest: no system prompt gives that ratio with these turns.
    """
    rng = Random(seed)
    count = -(-requests // turns)
    spoken = [[(rng.randint(*question), rng.randint(*ANSWER_TOKENS)) for _ in range(turns)] for _ in range(count)]
    system = random_ids(rng, _system_length(spoken, requests, prefix_ratio))
    items, said = [], [list(system) for _ in spoken]
    for turn in range(turns):
        for history, session in zip(said, spoken):
            asked, answered = session[turn]
            history += random_ids(rng, asked)
            items.append(Item(list(history), answered, answered))
            history += random_ids(rng, answered)
    notes = (f"{count} sessions of {turns} turns, system prompt of {len(system)} tokens",)
    return Workload("sessions", items[:requests], seed, notes)


def clients(
    requests: int, seed: int, rate: float = 8.0, count: int = 8, exponent: float = 1.2, cv: float = 2.0
) -> Workload:
    """A mix of ``count`` clients: the rate of the n-th is proportional to 1/n^exponent, ``rate`` per second together.

    Each client has its own bursts (Gamma intervals of variation ``cv``), its own kind of lengths and its own system
    prompt in front of every prompt.
    """
    rng = Random(seed)
    weights = [1 / (place + 1) ** exponent for place in range(count)]
    rates = [rate * weight / sum(weights) for weight in weights]
    systems = [random_ids(rng, rng.randint(*SYSTEM_TOKENS)) for _ in rates]
    times = [gamma_arrivals(requests, one, cv, seed + place) for place, one in enumerate(rates)]
    items = []
    for time, client in _merged(times, requests):
        prompts, outputs = KINDS[client % len(KINDS)]
        tokens = draw(outputs, rng)
        items.append(Item(systems[client] + random_ids(rng, draw(prompts, rng)), tokens, tokens, time))
    return Workload("clients", items, seed, (f"{count} clients, Zipf {exponent:g}, {rate:g} a second, CV {cv:g}",))


def with_shared_prefix(workload: Workload, ratio: float) -> Workload:
    """The workload with the beginning of every prompt, ``ratio`` of the mean length, replaced by the same tokens.

    Raises:
        InvalidRequest: a prompt is not longer than that.
    """
    lengths = [len(item.prompt_ids) for item in workload.items]
    shared = random_ids(Random(workload.seed + 1), round(ratio * sum(lengths) / len(lengths)))
    if len(shared) >= min(lengths):
        raise InvalidRequest("prefix_ratio", f"less than {min(lengths) * len(lengths) / sum(lengths):.2f} here", ratio)
    items = [replace(item, prompt_ids=shared + item.prompt_ids[len(shared) :]) for item in workload.items]
    return replace(workload, items=items, notes=(*workload.notes, f"the first {len(shared)} tokens are the same"))


def _system_length(spoken: Spoken, requests: int, ratio: float) -> int:
    """Tokens of the system prompt with which ``ratio`` of all prompt tokens has been there before."""
    low, high = (_shared(spoken, requests, system) for system in (0, LONGEST_SYSTEM))
    if not low - 0.01 <= ratio <= high:
        raise InvalidRequest("prefix_ratio", f"{low:.2f} to {high:.2f} for {requests} requests in such turns", ratio)
    return bisect_left(range(LONGEST_SYSTEM), ratio, key=lambda system: _shared(spoken, requests, system))


def _shared(spoken: Spoken, requests: int, system: int) -> float:
    """Share of prompt tokens in whole blocks that an earlier prompt of these sessions began with too."""
    shared = total = 0
    for place in range(requests):
        turn, session = divmod(place, len(spoken))
        said = spoken[session]
        before = system + sum(asked + answered for asked, answered in said[:turn])
        known = before - said[turn - 1][1] if turn else system if place else 0
        shared += known // BLOCK * BLOCK
        total += before + said[turn][0]
    return shared / total


def _merged(times: Sequence[Sequence[float]], requests: int) -> list[tuple[float, int]]:
    """The first ``requests`` arrivals of all clients: (seconds, client)."""
    heads = [(one[0], client, 0) for client, one in enumerate(times)]
    heapify(heads)
    found = []
    while len(found) < requests:
        time, client, place = heads[0]
        found.append((time, client))
        later = times[client][place + 1] if place + 1 < requests else float("inf")
        heapreplace(heads, (later, client, place + 1))
    return found
