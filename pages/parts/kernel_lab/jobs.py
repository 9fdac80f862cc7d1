"""Work of the Kernel Lab in child processes: one of a kind at a time, whichever tab asked, with words while it runs.

A child writes its result to standard output and what it does to standard error, a line each.
"""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


@dataclass(slots=True)
class Job:
    """One child: ``words`` says what it does; it ends with ``output`` or with ``error``."""

    name: str
    words: str = ""
    output: str | None = None
    error: str = ""
    began_s: float = field(default_factory=time.monotonic)
    lines: list[str] = field(default_factory=list)
    stopped: bool = False
    process: subprocess.Popen | None = None

    @property
    def running(self) -> bool:
        """True until it ended."""
        return self.output is None and not self.error

    @property
    def seconds(self) -> float:
        """Since the start."""
        return time.monotonic() - self.began_s

    def stop(self) -> None:
        """End the child; the job ends with ``stopped``."""
        self.stopped = True
        if self.process is not None:
            self.process.terminate()


class Jobs:
    """Starts children and keeps the newest of each name. Every method may be called from any thread."""

    def __init__(self) -> None:
        self._jobs: dict[str, Job] = {}
        self._lock = threading.Lock()

    def get(self, name: str) -> Job | None:
        """The newest job of that name."""
        return self._jobs.get(name)

    def forget(self) -> None:
        """Stop what runs, and drop everything (for tests)."""
        with self._lock:
            for job in self._jobs.values():
                job.stop()
            self._jobs.clear()

    def start(
        self,
        name: str,
        module: Sequence[str],
        environment: Mapping[str, str] | None = None,
        within: Callable[[], AbstractContextManager] = nullcontext,
        then: Callable[[str], object] = lambda output: None,
    ) -> Job:
        """Run ``python -m module ...`` inside ``within()`` and hand its output to ``then``. Returns at once.

        While a job of that name runs, it is returned instead.
        """
        with self._lock:
            job = self._jobs.get(name)
            if job is None or not job.running:
                job = self._jobs[name] = Job(name)
                work = (job, module, environment or {}, within, then)
                threading.Thread(target=_run, args=work, name=name, daemon=True).start()
            return job


def _run(job: Job, module: Sequence[str], environment: Mapping[str, str], within: Callable, then: Callable) -> None:
    try:
        with within():
            output = _child(job, module, environment)
        then(output)
        job.output = output
    except Exception as error:  # nobody waits for this thread: the page shows the reason
        job.error = str(error) or type(error).__name__


def _child(job: Job, module: Sequence[str], environment: Mapping[str, str]) -> str:
    """The standard output of the child. Raises ``RuntimeError`` with its last words when it fails."""
    if job.stopped:
        raise RuntimeError("stopped")
    inherited = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    paths = os.pathsep.join(filter(None, [str(ROOT), inherited.get("PYTHONPATH", "")]))
    environment = inherited | {"PYTHONPATH": paths, "PYTHONUNBUFFERED": "1", "OMP_NUM_THREADS": "1"} | dict(environment)
    command, pipe = [sys.executable, "-m", *module], subprocess.PIPE
    options = {"stdin": subprocess.DEVNULL, "stdout": pipe, "stderr": pipe, "text": True, "encoding": "utf-8"}
    with subprocess.Popen(command, env=environment, cwd=ROOT, **options) as process:
        job.process = process
        reader = threading.Thread(target=_follow, args=(job, process), daemon=True)
        reader.start()
        output = process.stdout.read()
        reader.join()
    if job.stopped:
        raise RuntimeError("stopped")
    if process.returncode:
        raise RuntimeError(job.words or f"the child process ended with status {process.returncode}")
    return output


def _follow(job: Job, process: subprocess.Popen) -> None:
    for line in process.stderr:
        if line.strip():
            job.words = line.strip()
            job.lines = [*job.lines[-40:], job.words]


@cache
def jobs() -> Jobs:
    """The jobs of this server."""
    return Jobs()
