"""Takes the results of a step apart: which tokens count, which are dropped, and which answers they end."""

from collections.abc import Sequence
from dataclasses import dataclass

from engine.request import Request
from engine.scheduling.answers import AnswerLimits
from engine.step import StepOutput
from engine.trace.events import Apply, Cause


@dataclass(slots=True)
class Applied:
    """What one step brought one request: new tokens, and the cause when they ended its answer.

    ``logprobs``: one entry per token, None when the step brought none.
    """

    request: Request
    token_ids: list[int]
    cause: Cause | None
    logprobs: list[dict[int, float] | None] | None


class OneEach(Sequence[Applied]):
    """One token for each of these requests, none of which it ends. ``Applied`` values are made for who asks."""

    def __init__(self, requests: list[Request], token_ids: list[int]) -> None:
        self.requests, self.token_ids = requests, token_ids

    def __len__(self) -> int:
        return len(self.requests)

    def __getitem__(self, index: int) -> Applied:
        return Applied(self.requests[index], [self.token_ids[index]], None, None)


def collect(output: StepOutput, awaited: dict[int, Request], answers: AnswerLimits) -> tuple[Apply, list[Applied]]:
    """Append the tokens of ``output`` to the requests whose rows are ``awaited``; drop all others.

    A row may bring several tokens; those behind the end of its answer are dropped too.
    """
    record = Apply(output.step)
    applied: dict[int, Applied] = {}
    for index, (row, token) in enumerate(zip(output.rows.tolist(), output.token_ids.tolist())):
        entry = applied.get(row)
        request = awaited.get(row)
        if request is None or (entry and entry.cause):
            record.dropped.append(row)
            continue
        record.rows.append(row)
        record.token_ids.append(token)
        request.token_ids.append(token)
        if entry is None:
            entry = applied[row] = Applied(request, [], None, [] if output.logprobs else None)
        entry.token_ids.append(token)
        if output.logprobs:
            entry.logprobs.append(output.logprobs[index])
        entry.cause = answers.cause_of_end(request, token)
    return record, list(applied.values())
