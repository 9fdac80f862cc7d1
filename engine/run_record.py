"""The records that let a reader begin: RUN at the start of a run, KEYFRAME for a reader that lost its place."""

from datetime import UTC, datetime

from engine.config import EngineConfig
from engine.limits import Limits
from engine.request import Request
from engine.scheduling.scheduler import Scheduler
from engine.trace import keyframe
from engine.trace.events import Keyframe


def run_info(config: EngineConfig, limits: Limits, known: dict) -> dict:
    """What a RUN record says: configuration, seed, model, pool, date (UTC), and what is ``known`` of the machine."""
    scheduling = config.scheduling
    return {
        "config": config.to_dict(),
        "seed": config.seed,
        "model": config.worker.random_weights or config.worker.model,
        "pool": {"blocks": scheduling.pool_blocks, "block_size": scheduling.block_size},
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "classroom": config.pool_blocks is not None,
        "vocab_size": limits.vocab_size,
    } | known


def keyframe_of(run: dict, scheduler: Scheduler, paused: bool) -> Keyframe:
    """The whole state of a scheduler that has no step in flight."""
    decoding = [r.row for r in scheduler.roster.running if r.num_scheduled_tokens > r.num_tokens_at_admission]
    return keyframe.build(run, scheduler.snapshot(), standing(scheduler), decoding, paused)


def standing(scheduler: Scheduler) -> list[Request]:
    """The requests that wait or hold a row."""
    return [*scheduler.roster.waiting, *scheduler.roster.running]
