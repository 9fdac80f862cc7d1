"""What experiments on scheduling and memory share: a model of its own in this process, chats, arrivals by the step.

Arrivals are counted in steps, so that the same seed gives the same schedule on every device.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from random import Random

from engine.config import EngineConfig, SchedulingConfig, WorkerConfig
from engine.engine import Engine
from engine.loading import LoadedModel, load_model
from engine.trace.events import Step
from engine.trace.state import State
from engine.trace.timeline import Timeline
from engine.workload.drive import Progress
from engine.workload.items import Item

LOADING = 0.15  # share of an experiment that loading takes


@contextmanager
def small_model(
    random_weights: str | None, scheduling: SchedulingConfig, pool_blocks: int, progress: Progress
) -> Iterator[LoadedModel]:
    """A loaded model.

    Args:
        random_weights: shape of a model without a checkpoint; None: the bundled model.
    """
    config = EngineConfig(scheduling, WorkerConfig(random_weights=random_weights), pool_blocks=pool_blocks)
    model = load_model(config, (), lambda what, done: progress(what, LOADING * done))
    try:
        yield model
    finally:
        model.close()


def chats(
    requests: int, seed: int, vocab: int, prompts: tuple[int, int], mean: float, outputs: tuple[int, int]
) -> list[Item]:
    """Random prompts of a length between ``prompts``, exponential answers of ``mean`` tokens cut to ``outputs``."""
    rng = Random(seed)
    items = []
    for _ in range(requests):
        output = round(min(outputs[1], max(outputs[0], rng.expovariate(1 / mean))))
        items.append(Item([rng.randrange(vocab) for _ in range(rng.randint(*prompts))], output, output))
    return items


def final_tokens(item: Item) -> int:
    """Tokens whose KV an item needs in the end: nobody computes the last one of its answer."""
    return len(item.prompt_ids) + item.output_length - 1


def blocks_of(items: Sequence[Item], block_size: int) -> list[int]:
    """Blocks that each item holds when it ends."""
    return [-(-final_tokens(item) // block_size) for item in items]


def drive_in_steps(
    engine: Engine, items: Sequence[Item], every: int, progress: Progress, priorities: Sequence[int] = ()
) -> list[list[int]]:
    """Run ``items`` to their end, one arrival every so many steps (0: all before the first); the tokens of each."""
    coming, requests, step = deque(enumerate(items)), [], 0
    while engine.prepare():
        progress("capturing graphs", 0.0)
    while coming or engine.has_work:
        while coming and (not every or step % every == 0):
            place, item = coming.popleft()
            priority = priorities[place] if priorities else 0
            requests.append(engine.submit(item.prompt_ids, item.sampling(), priority=priority))
            if every:
                break
        engine.step()
        step += 1
        if step % 8 == 0:
            progress("serving arrivals", 1 - (len(coming) + len(engine.answers.ids)) / len(items))
    return [request.output_ids for request in requests]


def after_steps(timeline: Timeline) -> Iterator[State]:
    """The state after each step was decided; it moves on with the next one."""
    state = timeline.base_state()
    for record in timeline:
        state.apply(record)
        if isinstance(record.event, Step):
            yield state
