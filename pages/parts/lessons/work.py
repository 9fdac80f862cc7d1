"""The experiment of a lesson while it runs: a thread that waits for the engine, runs it, and keeps its words."""

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from engine.errors import EngineStopped
from lessons.kit.items import Experiment
from lessons.kit.perform import perform
from lessons.kit.say import Say
from lessons.kit.shelf import Kept
from lessons.kit.stage import Stage


class Cancelled(Exception):
    """The learner gave the experiment up."""


@dataclass(slots=True)
class Work:
    """One experiment: running, ended with ``kept``, or with ``error``. ``words`` say what it does."""

    stage: Stage
    experiment: Experiment
    values: Mapping[str, object]
    words: str | Say = ""
    done: float = 0.0
    kept: Kept | None = None
    error: str = ""
    cancelled: bool = False
    began_s: float = field(default_factory=time.monotonic)

    @property
    def running(self) -> bool:
        """True until it ended."""
        return self.kept is None and not self.error

    @property
    def seconds(self) -> float:
        """Since the start."""
        return time.monotonic() - self.began_s

    def start(self) -> None:
        """Run in the background; returns at once."""
        threading.Thread(target=self._run, name=f"lesson {self.experiment.id}", daemon=True).start()

    def report(self, words: str | Say, done: float) -> None:
        """Take a progress report. Raises ``Cancelled`` once the learner gave up: that ends the experiment too."""
        if self.cancelled:
            raise Cancelled("cancelled")
        self.words, self.done = words, min(1.0, max(self.done, done))

    def _run(self) -> None:
        try:
            self.kept = perform(self.stage, self.experiment, self.values, self.report)
        except EngineStopped as error:
            self.error = str(error) or "the engine was stopped"
        except Exception as error:  # nobody waits for this thread: the page shows the reason
            self.error = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
