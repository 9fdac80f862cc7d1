"""Making room on a toy pool of a few blocks: a rule as a published sketch states it, and the engine's. Simulated.

Every request holds ``first`` blocks when it enters and one more after each step, until it has ``last`` and is done. Who
loses its blocks begins again: with the toy's blocks goes all that was computed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from engine.trace.views import label


@dataclass(slots=True)
class Toy:
    """Queue, rows and blocks. ``running`` is a double-ended list, front first, as the sketch uses it."""

    pool: int
    sizes: Sequence[tuple[int, int]]  # first, last: blocks of each request
    waiting: list[int] = field(default_factory=list)
    running: list[int] = field(default_factory=list)
    held: dict[int, int] = field(default_factory=dict)
    done: list[int] = field(default_factory=list)
    failed: bool = False  # the sketch raised

    @property
    def free(self) -> int:
        """Blocks that nobody holds."""
        return self.pool - sum(self.held.values())

    def preempt(self, victim: int) -> None:
        """A running request gives everything back and waits in front."""
        self.running.remove(victim)
        del self.held[victim]
        self.waiting.insert(0, victim)


Rule = Callable[[Toy], None]  # lets waiting requests in, as it sees fit


def published(toy: Toy) -> None:
    """The sketch: room is made for whoever waits; it enters at the front, victims are taken from the back."""
    if not toy.waiting:
        return
    new = toy.waiting[0]
    while toy.free < toy.sizes[new][0]:
        if not toy.running:
            toy.failed = True
            return
        toy.preempt(toy.running[-1])
    toy.waiting.remove(new)
    toy.running.insert(0, new)
    toy.held[new] = toy.sizes[new][0]


def careful(toy: Toy) -> None:
    """The engine's: whoever waits enters behind the others when there is room, and otherwise goes on waiting."""
    while toy.waiting and toy.free >= toy.sizes[toy.waiting[0]][0]:
        new = toy.waiting.pop(0)
        toy.running.append(new)
        toy.held[new] = toy.sizes[new][0]


def play(rule: Rule, pool: int, sizes: Sequence[tuple[int, int]], steps: int) -> dict:
    """Run a toy; request i arrives before step i + 1.

    Returns:
        ``requests`` (``label``, ``priority``, ``arrived``, ``spans`` as in ``pressure.spans``), ``used`` blocks of each
        step, ``pool``, ``done`` (how many ended), ``preemptions`` and ``failed``.
    """
    toy, used = Toy(pool, sizes), []
    requests = [{"label": label(i), "priority": 0, "arrived": i + 1, "spans": []} for i in range(len(sizes))]
    for step in range(1, steps + 1):
        if step <= len(sizes):
            toy.waiting.append(step - 1)
        before = set(toy.running)
        preempted = _grow(toy)
        if not preempted or rule is published:
            rule(toy)
        _note(toy, requests, before, step)
        used.append(toy.pool - toy.free)
        if toy.failed or len(toy.done) == len(sizes):
            break
    count = sum(span[2] == "preempt" for each in requests for span in each["spans"])
    outcome = {"done": len(toy.done), "preemptions": count, "failed": toy.failed}
    return {"requests": requests, "used": used, "pool": pool} | outcome


def _grow(toy: Toy) -> bool:
    """One more block for everybody who runs; who has all of them is done. True: the newest had to give way."""
    preempted = False
    for request in list(toy.running):
        if request not in toy.held:
            continue
        if toy.held[request] == toy.sizes[request][1]:
            toy.running.remove(request)
            del toy.held[request]
            toy.done.append(request)
            continue
        while not toy.free and request in toy.held:
            toy.preempt(toy.running[-1])
            preempted = True
        if request in toy.held:
            toy.held[request] += 1
    return preempted


def _note(toy: Toy, requests: list[dict], before: set[int], step: int) -> None:
    """Write down who ran in this step, and how the others left."""
    running = set(toy.running)
    for request in before - running:
        requests[request]["spans"][-1][2] = "end" if request in toy.done else "preempt"
    for request in running:
        spans = requests[request]["spans"]
        if request in before and spans:
            spans[-1][1] = step
        else:
            spans.append([step, step, "end"])
