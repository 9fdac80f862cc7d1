"""Runs what a learner wrote: in a child process with limits, on arguments alone. It has no handle on anything of ours.

The child gets the source and the cases on standard input and answers with JSON on standard output; it may use little
time, little memory, no new files and no new processes.
"""

import base64
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from lessons.kit.forms import Code
from lessons.kit.say import Say, say

SECONDS = 10.0
CHILD = Path(__file__).with_name("child.py")
MAX_OUTPUT = 4 * 2**20  # bytes
Outcome = tuple[list, Say | None]  # one output for each case, and why there are none


def answers_of(form: Code, answer: object) -> Outcome:
    """What the learner's function gives for each case.

    Args:
        answer: the source (run in a child), or the function itself (in a notebook, where it runs anyway).
    """
    if callable(answer):
        return _called(answer, form)
    return run(form.clean(answer), form.entry, form.cases)


def run(source: str, entry: str, cases: Sequence[tuple]) -> Outcome:
    """Call ``entry`` of ``source`` with each case in a child of its own."""
    given = json.dumps({"source": source, "entry": entry, "cases": [_packed(each) for each in cases]})
    with tempfile.TemporaryDirectory() as empty:
        command = [sys.executable, "-I", str(CHILD), str(SECONDS)]
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "cwd": empty, "env": _environment(empty)}
        with subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True, **options) as child:
            try:
                output, errors = child.communicate(given.encode(), timeout=SECONDS + 5)
            except subprocess.TimeoutExpired:
                _end(child)
                return [], _too_slow()
    return _read(child.returncode, output, errors)


def _end(child: subprocess.Popen) -> None:
    child.kill()
    child.communicate()


def _read(status: int, output: bytes, errors: bytes) -> Outcome:
    """What the child said, or in words why it said nothing."""
    if len(output) <= MAX_OUTPUT:
        try:
            said = json.loads(output.splitlines()[-1])
        except (ValueError, IndexError):
            said = None
        if isinstance(said, dict):
            if "error" in said:
                return [], say("kit.raised", "Your code ended with: {error}", error=said["error"])
            return [_unpacked(each) for each in said["outputs"]], None
    if status == -signal.SIGXCPU:
        return [], _too_slow()
    last = errors.decode(errors="replace").strip().splitlines()[-1:] or [f"status {status}"]
    return [], say("kit.died", "Its process ended without an answer ({why}): out of memory?", why=last[0][:200])


def _too_slow() -> Say:
    return say("kit.too_slow", "It ran longer than {seconds:g} s and was stopped.", seconds=SECONDS)


def _environment(folder: str) -> dict[str, str]:
    """Nothing of the server's environment but what starting Python needs: no tokens, no paths of ours."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "LD_LIBRARY_PATH") if name in os.environ}
    return kept | {"HOME": folder, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def _called(function: Callable, form: Code) -> Outcome:
    try:
        return [function(*case) for case in form.cases], None
    except Exception as error:  # the learner's: shown, not raised
        return [], say("kit.raised", "Your code ended with: {error}", error=f"{type(error).__name__}: {error}")


def _packed(case: tuple) -> list:
    return [_array(each) if isinstance(each, np.ndarray) else each for each in case]


def _array(values: np.ndarray) -> dict:
    held = io.BytesIO()
    np.save(held, values, allow_pickle=False)
    return {"npy": base64.b64encode(held.getvalue()).decode()}


def _unpacked(value: object) -> object:
    if isinstance(value, dict) and value.keys() == {"npy"}:
        return np.load(io.BytesIO(base64.b64decode(value["npy"])), allow_pickle=False)
    return [_unpacked(each) for each in value] if isinstance(value, list) else value
