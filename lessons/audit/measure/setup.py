"""A loaded bundled model, and one recorded run on it."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from random import Random

from engine.config import EngineConfig, SchedulingConfig, WorkerConfig
from engine.loading import LoadedModel, load_model
from engine.trace.recorder import ListSink
from engine.trace.timeline import Timeline, split_runs
from engine.workload.drive import Outcome, Progress, drive, silent
from engine.workload.items import Item

ROWS, BLOCK_SIZE = 8, 16


@contextmanager
def bundled(
    device: str, progress: Progress = silent, pool_blocks: int = 256, **limits: object
) -> Iterator[LoadedModel]:
    """The bundled model with 8 rows, blocks of 16 and a budget of 512 tokens, unless ``limits`` say otherwise."""
    usual = {"max_num_seqs": ROWS, "block_size": BLOCK_SIZE, "token_budget": 512, "max_model_len": 512}
    config = EngineConfig(SchedulingConfig(**(usual | limits)), WorkerConfig(device=device), pool_blocks)
    model = load_model(config, (), progress)
    try:
        yield model
    finally:
        model.close()


def recorded(
    model: LoadedModel, items: Sequence[Item], overrides: Mapping[str, object], what: str, progress: Progress
) -> tuple[Outcome, Timeline]:
    """Run ``items`` once and keep the records."""
    sink = ListSink()
    outcome = drive(model.new_engine(overrides, (sink,)), items, what, progress)
    (timeline,) = split_runs(sink.records)
    return outcome, timeline


def prompts(count: int, tokens: int, vocab: int, seed: int = 0) -> list[list[int]]:
    """Random prompts of equal length."""
    draw = Random(seed)
    return [[draw.randrange(vocab) for _ in range(tokens)] for _ in range(count)]
