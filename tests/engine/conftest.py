"""Engines without a model, for every test of this folder."""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from engine.config import EngineConfig, SchedulingConfig, WorkerConfig
from engine.loading import LoadedModel, load_model
from engine.trace.recorder import ListSink

HASH_WORKER = "hash_worker:HashWorker"
HERE = Path(__file__).parent


def tiny_config(pool_blocks: int = 64, **scheduling: object) -> EngineConfig:
    """A classroom engine whose text is bytes (random weights have no tokenizer of their own)."""
    limits = replace(SchedulingConfig(block_size=4, token_budget=32, max_model_len=128), **scheduling)
    return EngineConfig(limits, WorkerConfig(random_weights="tiny", device="cpu"), pool_blocks=pool_blocks)


def load_tiny(sink: ListSink | None = None, **scheduling: object) -> LoadedModel:
    """The hash model, loaded."""
    return load_model(tiny_config(**scheduling), [sink] if sink else [], worker=HASH_WORKER)


@pytest.fixture(autouse=True, scope="session")
def _child_finds_the_hash_worker() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, (str(HERE), os.environ.get("PYTHONPATH", "")))))
        yield
