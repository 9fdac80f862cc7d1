"""Measurements that wait and the one that runs: one after the other, in child processes, whichever tab asked."""

import threading
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from functools import cache

from lessons.audit import store
from lessons.audit.measure.catalogue import ALL
from lessons.audit.registry import Sources
from lessons.audit.report import Entry, needs_of
from pages.parts.claims.measured import is_own
from pages.parts.kernel_lab import runs
from pages.parts.kernel_lab.jobs import Job, jobs
from pages.parts.kernel_lab.measure import KERNELS
from pages.parts.session import session

LOOK_S = 0.1  # between two looks at the child


def able(name: str) -> bool:
    """Whether this machine can run the measurement. Without a GPU the kernels would be their plain references."""
    return runs.has_gpu() or (name != "kernels" and not ALL[name].cuda)


def left(entry: Entry, known: Sources) -> list[str]:
    """Measurements behind a claim that were not made on this machine yet."""
    return [name for name in needs_of(entry.claim) if not is_own(name, known)]


def can_run(entry: Entry, known: Sources) -> bool:
    """Whether this machine could answer the claim with numbers of its own, and has not."""
    names = left(entry, known)
    return bool(names) and all(map(able, names))


class Queue:
    """Runs measurements in the order asked. Every method may be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: list[str] = []
        self.running = False  # something runs or waits
        self.now = ""  # the name of what runs
        self.done = 0  # since the queue was last empty
        self.failures: dict[str, str] = {}  # name -> why the last try failed

    @property
    def waiting(self) -> list[str]:
        """What comes next."""
        return list(self._waiting)

    @property
    def job(self) -> Job | None:
        """The child that runs."""
        return jobs().get(_job_name(self.now)) if self.now else None

    def ask(self, names: Sequence[str]) -> None:
        """Put measurements into the queue, unless they are in it. Returns at once."""
        with self._lock:
            self._waiting += [name for name in names if name not in self._waiting and name != self.now]
            if not self.running:
                self.running, self.done = True, 0
                threading.Thread(target=self._work, name="claims", daemon=True).start()

    def stop(self) -> None:
        """Forget what waits and end what runs."""
        with self._lock:
            self._waiting.clear()
        if self.job is not None:
            self.job.stop()

    def _work(self) -> None:
        while (name := self._next()) is not None:
            job = _start(name)
            while job.running:
                time.sleep(LOOK_S)
            self.failures.pop(name, None)
            if job.error and not job.stopped:
                self.failures[name] = job.error
            self.done += 1

    def _next(self) -> str | None:
        """What to run now; None ends the thread, and what is asked for from then on starts another."""
        with self._lock:
            self.now = self._waiting.pop(0) if self._waiting else ""
            self.running = bool(self.now)
            return self.now or None


def _job_name(name: str) -> str:
    return KERNELS.job if name == "kernels" else f"claims {name}"


def _start(name: str) -> Job:
    if name == "kernels":
        module, then = KERNELS.module(), KERNELS.shelf.keep
    else:
        device = "cuda" if runs.has_gpu() else "cpu"
        path = store.own_path(runs.device_name())
        module, then = ("lessons.audit", name, "--device", device), lambda text: store.keep(path, name, text)
    return jobs().start(_job_name(name), module, within=_alone, then=then)


def _alone() -> AbstractContextManager:
    """The device for this work alone: a running engine stands still at a step boundary."""
    return session().driver().exclusive("the Claim Auditor measures")


@cache
def queue() -> Queue:
    """The server's queue."""
    return Queue()
