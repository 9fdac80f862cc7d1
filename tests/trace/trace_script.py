"""Hand-written traces: a recorder whose clock the test sets, in seconds."""

import json

from engine.trace.events import Admit, Apply, Arrive, Cause, Event, Leave, Record, Run, Step
from engine.trace.recorder import ListSink, Recorder
from engine.trace.timeline import Timeline, split_runs

LIMITS = {"pool_blocks": 8, "block_size": 4, "max_num_seqs": 2, "token_budget": 16, "batching": "in-flight"}


class Script:
    """Writes records one after the other; ``limits`` change the scheduling settings of the run."""

    def __init__(self, **limits: object) -> None:
        self.sink = ListSink()
        self.seconds = 0.0
        self.recorder = Recorder([self.sink], lambda: round(self.seconds * 1e9), lambda token: b"<%d>" % token)
        self.emit(Run(json.dumps({"model": "m", "config": {"scheduling": LIMITS | limits}}).encode()))

    def at(self, seconds: float, *events: Event) -> "Script":
        """Write ``events`` at this engine time."""
        self.seconds = seconds
        for event in events:
            self.emit(event)
        return self

    def emit(self, event: Event) -> None:
        """Write one event now."""
        self.recorder.emit(event)

    @property
    def records(self) -> list[Record]:
        """What was written."""
        return self.sink.records

    @property
    def timeline(self) -> Timeline:
        """The last run of what was written."""
        return split_runs(self.records)[-1]


def arrive(request: int, prompt: int = 3, max_tokens: int = 9, priority: int = 0) -> Arrive:
    """A request whose prompt is 0, 1, 2 ..."""
    return Arrive(request, max_tokens, priority, 5, f"name-{request}".encode(), list(range(prompt)))


def admit(request: int, row: int, epoch: int = 0, resumed: int = 0) -> Admit:
    """Without a prefix hit."""
    return Admit(request, row, epoch, resumed, 0, [])


def step(**changes: object) -> Step:
    """A step with nothing but ``changes``."""
    return Step(**({"budget": 16, "used": 1, "free": 0, "reclaimable": 0, "waiting": 0} | changes))


def prefill(row: int, tokens: int, blocks: list[int]) -> Step:
    """A whole prompt in one step, with its first token."""
    chunk = {"chunk_rows": [row], "chunk_starts": [0], "chunk_tokens": [tokens], "chunk_lasts": [1]}
    return step(used=tokens, block_rows=[row] * len(blocks), block_ids=blocks, **chunk)


def one_answer(token_seconds: list[float]) -> Script:
    """A request that arrives at 0 and gets one token at each of these times."""
    script = Script().at(0.0, arrive(0), admit(0, 0), prefill(0, 3, [1]))
    for number, seconds in enumerate(token_seconds, 1):
        script.at(seconds, Apply(number, [0], [40 + number]))
        if number < len(token_seconds):
            script.emit(step(joined=[0] if number == 1 else []))
    return script.at(token_seconds[-1], Leave(0, 0, 1, Cause.LENGTH))
