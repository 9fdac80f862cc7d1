"""Every kernel compiles to machine code without a GPU: types and shapes that the interpreter lets through show."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton", reason="Triton is optional; without it there is nothing to compile")
HERE = Path(__file__).parent
SHARED_MEMORY = {80: 163 << 10, 90: 227 << 10, 100: 227 << 10}  # bytes a program may use


@pytest.fixture(scope="module")
def built():
    """One line per kernel and architecture, from a process without the interpreter."""
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    environment["PYTHONPATH"] = str(HERE.parents[1])
    command = [sys.executable, HERE / "compile_all.py"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("arch", SHARED_MEMORY)
def test_every_kernel_compiles(built, arch):
    """bf16, with the tiles that the launchers choose, aligned as a real launch is; and it fits the shared memory."""
    lines = [line for line in built if line["arch"] == arch]
    assert len(lines) >= 15
    for line in lines:
        assert "error" not in line, line
        assert line["cubin"] > 0 and line["shared"] <= SHARED_MEMORY[arch], line
