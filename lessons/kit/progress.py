"""What a learner leaves behind: predictions, attempts, how far each lesson is, and the ledger of measured numbers.

One JSON file with a schema version. A lesson is known here by its key: its id, with ``@seed`` behind it where the seed
is not 0. Every method may be called from any thread; the file is read again when somebody else wrote it.
"""

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import cache
from math import isfinite
from pathlib import Path

from lessons.kit.places import data_folder, write_whole

SCHEMA = 1
FILE = "progress.json"


@dataclass(frozen=True, slots=True)
class Entry:
    """One number of the ledger: how it was got, on what, when, and in which lesson."""

    value: float
    unit: str
    how: str
    device: str = ""
    date: str = ""
    lesson: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """A settled question. ``value`` None: the answer was shown without a prediction, which is recorded as skipped."""

    value: float | str | None
    date: str = ""
    theory: float | None = None
    observed: float | str | None = None

    @property
    def skipped(self) -> bool:
        """Whether there was no prediction."""
        return self.value is None


@dataclass(frozen=True, slots=True)
class Attempt:
    """How an exercise stands: the newest answer, whether any passed, and how many there were."""

    answer: object
    passed: bool
    tries: int
    said: str = ""  # the grader's word on the newest one, in English
    date: str = ""


def today() -> str:
    """Now, in ISO 8601, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


class Progress:
    """The file of one learner.

    Args:
        path: where it is kept; None: in memory only.
    """

    def __init__(self, path: Path | None) -> None:
        self._path, self._lock = path, threading.RLock()
        self._document, self._seen_ns = _empty(), -1

    # ---- predictions and exercises

    def answer(self, key: str, question: str) -> Answer | None:
        """The settled answer, None while the question is open."""
        found = self._lesson(key)["answers"].get(question)
        return Answer(**found) if found else None

    def settle(self, key: str, question: str, value: float | str | None) -> None:
        """Lock a prediction, or None for "show anyway". The first answer stays."""

        def change(lesson: dict) -> None:
            lesson["answers"].setdefault(question, asdict(Answer(value, today())))

        self._change(key, change)

    def observe(self, key: str, question: str, theory: float | None, observed: float | str) -> None:
        """Put what was observed beside the prediction."""
        before = self.answer(key, question)
        if before is not None and (before.theory, before.observed) != (theory, observed):
            put = asdict(Answer(before.value, before.date, theory, observed))
            self._change(key, lambda lesson: lesson["answers"].update({question: put}))

    def attempt(self, key: str, exercise: str) -> Attempt | None:
        """How an exercise stands, None before the first try."""
        found = self._lesson(key)["attempts"].get(exercise)
        return Attempt(**found) if found else None

    def attempted(self, key: str, exercise: str, answer: object, passed: bool, said: str) -> None:
        """Count one more try. What passed once stays passed."""
        before = self.attempt(key, exercise)
        tries, passed = (before.tries if before else 0) + 1, passed or (before is not None and before.passed)
        put = asdict(Attempt(answer, passed, tries, said, today()))
        self._change(key, lambda lesson: lesson["attempts"].update({exercise: put}))

    # ---- how far

    def reached(self, key: str) -> int:
        """The furthest step that was opened, from 0."""
        return self._lesson(key)["reached"]

    def reach(self, key: str, step: int) -> None:
        """A step was opened."""
        if step > self.reached(key):
            self._change(key, lambda lesson: lesson.update(reached=step))

    def finished(self, key: str) -> bool:
        """Whether the takeaway was reached."""
        return self._lesson(key)["finished"]

    def finish(self, key: str) -> None:
        """The takeaway was reached."""
        if not self.finished(key):
            self._change(key, lambda lesson: lesson.update(finished=True))

    def lesson(self, key: str) -> dict:
        """All of one lesson as plain values, for a report."""
        return json.loads(json.dumps(self._lesson(key)))

    # ---- the ledger

    @property
    def ledger(self) -> dict[str, Entry]:
        """All entries by name."""
        return {name: Entry(**entry) for name, entry in self._read()["ledger"].items()}

    def enter(self, name: str, entry: Entry) -> None:
        """Write a number down; a newer one takes the place of an older."""
        if self.ledger.get(name) != entry:
            self._write(lambda document: document["ledger"].update({name: asdict(entry)}))

    # ---- the file as a whole

    def export(self) -> str:
        """Everything as JSON."""
        return json.dumps(self._read(), indent=1, ensure_ascii=False, sort_keys=True)

    def take(self, text: str) -> None:
        """Replace everything by what ``export`` gave elsewhere.

        Raises:
            ValueError: not such a file, or one of a newer version.
        """
        document = _checked(text)
        self._write(lambda own: (own.clear(), own.update(document)))

    def reset(self, key: str) -> None:
        """Forget one lesson; the ledger stays."""
        self._write(lambda document: document["lessons"].pop(key, None))

    def reset_all(self) -> None:
        """Forget everything."""
        self._write(lambda document: (document.clear(), document.update(_empty())))

    def _lesson(self, key: str) -> dict:
        return self._read()["lessons"].get(key) or _blank()

    def _change(self, key: str, change: Callable[[dict], object]) -> None:
        self._write(lambda document: change(document["lessons"].setdefault(key, _blank())))

    def _read(self) -> dict:
        with self._lock:
            stamp = self._path.stat().st_mtime_ns if self._path is not None and self._path.exists() else -1
            if stamp != self._seen_ns:
                self._document, self._seen_ns = _loaded(self._path), stamp
            return self._document

    def _write(self, change: Callable[[dict], object]) -> None:
        with self._lock:
            change(self._read())
            if self._path is not None:
                write_whole(self._path, json.dumps(self._document, indent=1, ensure_ascii=False).encode())
                self._seen_ns = self._path.stat().st_mtime_ns


def lesson_key(lesson: str, seed: int) -> str:
    """The key of a lesson: another seed is another experiment, with questions of its own."""
    return lesson if seed == 0 else f"{lesson}@{seed}"


def own_progress() -> Progress:
    """The progress of whoever uses this machine."""
    return _kept_in(data_folder())


@cache
def _kept_in(folder: Path) -> Progress:
    """One object for each folder: all threads share its lock."""
    return Progress(folder / FILE)


def _empty() -> dict:
    return {"schema": SCHEMA, "lessons": {}, "ledger": {}}


def _blank() -> dict:
    return {"answers": {}, "attempts": {}, "reached": 0, "finished": False}


def _loaded(path: Path | None) -> dict:
    """The file's document; a file that cannot be read is kept beside under another name, never lost."""
    if path is None or not path.exists():
        return _empty()
    try:
        return _checked(path.read_text(encoding="utf-8"))
    except ValueError:
        path.replace(path.with_suffix(".unreadable"))
        return _empty()


def _checked(text: str) -> dict:
    document = json.loads(text)
    if not isinstance(document, dict) or not isinstance(document.get("schema"), int):
        raise ValueError("not a progress file: a JSON object with a field schema")
    if document["schema"] > SCHEMA:
        raise ValueError(f"schema: at most {SCHEMA}, not {document['schema']}; a newer version wrote this file")
    if not all(isinstance(document.get(part), Mapping) for part in ("lessons", "ledger")):
        raise ValueError("lessons, ledger: JSON objects")
    _try_types(document)
    return document


def _try_types(document: Mapping) -> None:
    """Raise ``ValueError`` where a part has other fields than ours."""
    try:
        for lesson in document["lessons"].values():
            [Answer(**each) for each in lesson["answers"].values()]
            [Attempt(**each) for each in lesson["attempts"].values()]
            int(lesson["reached"]), bool(lesson["finished"])
        entries = [Entry(**each) for each in document["ledger"].values()]
    except (TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"not a progress file: {error}") from error
    if not all(isinstance(entry.value, int | float) and isfinite(entry.value) for entry in entries):
        raise ValueError("ledger: values are numbers")
