"""Starts the engine process and puts its death into words."""

import os
import signal
import socket
import subprocess
import sys
from multiprocessing.connection import Connection
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def spawn() -> tuple[Connection, subprocess.Popen]:
    """A child and our end of the pipe. Never ``multiprocessing``: under Streamlit it would run the page again."""
    ours, theirs = socket.socketpair()
    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths)), "PYTHONSAFEPATH": "1"}
    # On a CPU, small products lose far more by waiting for a second core than they gain from it.
    environment.setdefault("OMP_NUM_THREADS", "1")
    process = subprocess.Popen(
        [sys.executable, "-m", "engine.process", str(theirs.fileno())],
        pass_fds=(theirs.fileno(),),
        env=environment,
        stdin=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C in the terminal is for the app; the child ends with the pipe
    )
    theirs.close()
    return Connection(ours.detach()), process


def death(status: int) -> str:
    """The exit status of a process that nobody asked to end."""
    if status < 0:
        name = signal.Signals(-status).name
        hint = " (often the system ran out of memory)" if name == "SIGKILL" else ""
        return f"the engine process was killed by {name}{hint}"
    return f"the engine process ended with status {status}"
