"""Triton has no wheel for some platforms; everything must start without it, on the references, and say so."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

GENERATE = """
import logging, sys
sys.modules["triton"] = None  # as if it were not installed
logging.basicConfig(stream=sys.stderr)
import torch
from engine.config import EngineConfig, WorkerConfig
from engine.loading import load_model
from engine.request import SamplingParams
from kernels.backend import default_backend
model = load_model(EngineConfig(worker=WorkerConfig(device="cpu")))
engine = model.new_engine()
request = engine.submit("It was", SamplingParams(max_tokens=4, temperature=0))
engine.run()
assert request.num_output_tokens == 4 and model.info["backend"] == "reference"
torch.cuda.get_device_capability = lambda device: (9, 0)
assert default_backend(torch.device("cuda")) == "reference"
"""


def test_the_engine_runs_without_triton() -> None:
    """Guards the optional import: one module that needs Triton at import time would take the whole app down."""
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", GENERATE], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "triton is not installed" in done.stderr
