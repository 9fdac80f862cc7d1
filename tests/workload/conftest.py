"""A tiny model with random weights on the CPU, loaded once: the real worker, no stand-in."""

import pytest

from engine.config import EngineConfig, SchedulingConfig, WorkerConfig
from engine.loading import load_model

ROWS = 4


@pytest.fixture(scope="session")
def loaded():
    scheduling = SchedulingConfig(max_num_seqs=ROWS, token_budget=512, max_model_len=256, prefix_cache=True)
    worker = WorkerConfig(random_weights="tiny", device="cpu", dtype="fp32")
    model = load_model(EngineConfig(scheduling, worker, pool_blocks=80))
    yield model
    model.close()
