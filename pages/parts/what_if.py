"""Questions to a run, answered one after the other in the background, whichever tab asked.

Both sides of an answer are runs of their own, so they are kept beside the opened recordings and can be watched.
"""

import threading
from collections import OrderedDict
from itertools import count

from engine.errors import FlightdeckError
from engine.trace.timeline import Timeline
from engine.workload.questions import QUESTIONS, ask
from pages.parts.recordings import Recordings

KEPT = 16  # answers


class WhatIf:
    """Answers by number. Every method may be called from any thread."""

    def __init__(self, recordings: Recordings) -> None:
        self._recordings = recordings
        self._answers: OrderedDict[int, dict] = OrderedDict()
        self._lock, self._turn = threading.Lock(), threading.Lock()
        self._count = count(1)

    def ask(self, run: Timeline, question: str) -> dict:
        """Begin to answer; returns at once with what ``answer`` tells. Raises ``ValueError`` for no such question."""
        if question not in QUESTIONS:
            raise ValueError(f"question: one of {', '.join(QUESTIONS)}")
        begun = {"number": next(self._count), "question": question, "phase": "running"}
        self._keep(begun)
        work = threading.Thread(target=self._work, args=(run.frozen(), begun), name="what-if", daemon=True)
        work.start()
        return begun

    def answer(self, number: int) -> dict | None:
        """How far an answer is: ``phase`` is running, done (with the values of ``questions.ask``) or failed."""
        with self._lock:
            return self._answers.get(number)

    def _work(self, run: Timeline, begun: dict) -> None:
        try:
            with self._turn:
                found, values = ask(run, begun["question"])
            opened = self._recordings.keep_simulated(begun["question"], found.timelines)
            self._keep(begun | values | {"phase": "done", "opened": opened})
        except (ValueError, FlightdeckError) as error:
            self._keep(begun | {"phase": "failed", "error": str(error)})

    def _keep(self, answer: dict) -> None:
        with self._lock:
            self._answers[answer["number"]] = answer
            while len(self._answers) > KEPT:
                self._answers.popitem(last=False)
