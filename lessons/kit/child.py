"""The child of ``sandbox``: limits itself, runs the learner's source, answers with JSON. Imports nothing of ours."""

import base64
import io
import json
import math
import os
import resource
import sys
import traceback

MEMORY = 2 * 2**30  # bytes of address space
FILE = 4 * 2**20  # bytes of a file


def main() -> None:
    """Read source, entry and cases; write ``{"outputs": [...]}`` or ``{"error": words}`` as the last line."""
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the source prints is no answer
    given = json.load(sys.stdin)
    limit(float(sys.argv[1]))
    try:
        said = {"outputs": [packed(each) for each in called(given)]}
        text = json.dumps(said)
    except MemoryError:
        text = json.dumps({"error": f"MemoryError: more than {MEMORY // 2**30} GiB"})
    except BaseException as error:
        text = json.dumps({"error": words(error)})
    answer.write(text + "\n")
    answer.flush()
    os._exit(0)


def limit(seconds: float) -> None:
    """Processor time, memory, files and processes."""
    whole = max(1, math.ceil(seconds))
    resource.setrlimit(resource.RLIMIT_CPU, (whole, whole + 1))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE, FILE))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if os.getuid():  # the superuser is never limited by it
        resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))


def called(given: dict) -> list:
    """What the entry gives for each case."""
    space: dict = {"__name__": "exercise"}
    exec(compile(given["source"], "your code", "exec"), space)
    function = space.get(given["entry"])
    if not callable(function):
        raise NameError(f"your code defines no function {given['entry']}")
    return [function(*map(unpacked, case)) for case in given["cases"]]


def packed(value: object) -> object:
    """A value as JSON holds it: arrays by their bytes, numpy scalars as numbers, tuples as lists."""
    if type(value).__module__.partition(".")[0] == "numpy":
        import numpy as np

        if not isinstance(value, np.ndarray):
            return value.item()
        held = io.BytesIO()
        np.save(held, value, allow_pickle=False)
        return {"npy": base64.b64encode(held.getvalue()).decode()}
    if isinstance(value, list | tuple):
        return [packed(each) for each in value]
    return value


def unpacked(value: object) -> object:
    """The reverse, for an argument."""
    if isinstance(value, dict) and value.keys() == {"npy"}:
        import numpy as np

        return np.load(io.BytesIO(base64.b64decode(value["npy"])), allow_pickle=False)
    return value


def words(error: BaseException) -> str:
    """The error and the learner's line that it happened in."""
    if isinstance(error, SyntaxError):
        return f"line {error.lineno}: SyntaxError: {error.msg}"
    own = [each for each in traceback.extract_tb(error.__traceback__) if each.filename == "your code"]
    where = f"line {own[-1].lineno}: " if own else ""
    return f"{where}{type(error).__name__}: {error}"[:500]


if __name__ == "__main__":
    main()
