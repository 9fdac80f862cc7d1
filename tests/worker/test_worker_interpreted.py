"""The worker on the Triton kernels themselves, in Triton's interpreter (a process of its own)."""

import os
import subprocess
import sys
from pathlib import Path

SCRIPT = """
import engine.worker
import torch
from engine.config import SchedulingConfig, WorkerConfig
from engine.request import SamplingParams
from engine.worker import runner
from tests.worker.drive import answer

torch.set_num_threads(1)
limits = SchedulingConfig(pool_blocks=16, block_size=8, max_num_seqs=2, token_budget=64, max_model_len=64)

def worker(backend, **formats):
    runner.default_backend = lambda device: backend
    return runner.TorchWorker(WorkerConfig(random_weights="tiny", device="cpu", **formats), limits, 16)

plain, fused = worker("reference"), worker("triton")
ids, prompts = list(range(3, 20)), [[1, 2, 3], list(range(40, 49))]
torch.testing.assert_close(fused.logits(ids), plain.logits(ids), atol=1e-4, rtol=0)
general = SamplingParams(temperature=0.8, top_p=0.9, repetition_penalty=1.3, min_tokens=2, logprobs=2)
assert fused.steps.shapes is not None  # padded as on CUDA
assert answer(fused, prompts, general, 2) == answer(plain, prompts, general, 2)
plain, fused = worker("reference", kv_dtype="int8"), worker("triton", kv_dtype="int8")
torch.testing.assert_close(fused.logits(ids), plain.logits(ids), atol=1e-2, rtol=0)  # a tie may round the other way
greedy = SamplingParams(temperature=0)
assert answer(fused, prompts, greedy, 2) == answer(plain, prompts, greedy, 2)

plain, fused = worker("reference", quantize="int4"), worker("triton", quantize="int4")
torch.testing.assert_close(fused.logits(ids), plain.logits(ids), atol=1e-3, rtol=0)
"""


def test_worker_runs_on_the_triton_kernels():
    """Guards what the worker hands to the kernels: dtypes, strides, padding, argument order."""
    root = Path(__file__).resolve().parents[2]
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": str(root)}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], cwd=root, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
