"""The name ``kernels`` is ours and Hugging Face's; each part must get its own, whatever is installed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

BUILD_A_MODEL = """
{first}
{second}
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.utils import is_kernels_available
import kernels
from kernels.rmsnorm import rmsnorm
assert not is_kernels_available()
assert kernels.__file__.startswith({root!r}), kernels.__file__
config = LlamaConfig(hidden_size=64, intermediate_size=64, num_hidden_layers=1, num_attention_heads=1, vocab_size=32)
model = LlamaForCausalLM(config)
import torch
assert model.generate(torch.tensor([[3, 4]]), max_new_tokens=2, min_new_tokens=2, do_sample=False).shape == (1, 4)
"""


def installed_kernels(folder: Path, version: str) -> Path:
    """What pip leaves behind of Hugging Face's package, as far as transformers looks: metadata with a version."""
    info = folder / f"kernels-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: kernels\nVersion: {version}\n")
    return folder


@pytest.mark.parametrize("ours_first", (True, False), ids=("ours first", "shield first"))
@pytest.mark.parametrize("version", (None, "0.16.1", "0.18.2"), ids=str)
def test_transformers_leaves_our_kernels_alone(tmp_path: Path, version: str | None, ours_first: bool) -> None:
    """Without the shield a model class cannot be imported (CUDAProperties) once Hugging Face's package is installed."""
    lines = ["import kernels", "import engine.worker"]
    first, second = lines if ours_first else reversed(lines)
    path = [str(ROOT), *([str(installed_kernels(tmp_path, version))] if version else [])]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path), "OMP_NUM_THREADS": "1"}
    code = BUILD_A_MODEL.format(first=first, second=second, root=str(ROOT))
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
