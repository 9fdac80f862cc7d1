"""Recordings that the Theatre shows instead of the engine: those of this tree, and files that a visitor brings.

An opened recording is kept by a name of its own, so that each tab looks at what it opened; the oldest is let go.
"""

import io
import threading
from collections import OrderedDict
from itertools import count
from pathlib import Path

from engine.trace.files import load, save
from engine.trace.timeline import Timeline, split_runs

SHIPPED = Path(__file__).resolve().parents[2] / "lessons" / "recordings"
KEPT = 32  # runs, over all tabs, simulated ones among them
MAX_UPLOAD = 16 * 2**20  # bytes, compressed


class Recordings:
    """Opened recordings by name. Every method may be called from any thread."""

    def __init__(self, folder: Path = SHIPPED) -> None:
        self._folder = folder
        self._runs: OrderedDict[str, Timeline] = OrderedDict()
        self._lock = threading.Lock()
        self._count = count(1)

    def shipped(self) -> list[str]:
        """File names of the recordings in this tree."""
        return sorted(path.name for path in self._folder.glob("*.fdtrace"))

    def run(self, name: str) -> Timeline | None:
        """An opened run; None when it was let go, or never was."""
        with self._lock:
            return self._runs.get(name)

    def open_shipped(self, file: str) -> dict:
        """Open a recording of this tree. Raises ``ValueError``."""
        if file not in self.shipped():
            raise ValueError(f"no recording {file!r} in this tree")
        return self._keep(file, split_runs(load(self._folder / file))) | {"file": file}

    def open_bytes(self, title: str, data: bytes) -> dict:
        """Open what a visitor sent. Raises ``ValueError`` for anything that is no recording."""
        try:
            return self._keep(title, split_runs(load(io.BytesIO(data))))
        except (LookupError, TypeError, AttributeError, OverflowError) as error:
            raise ValueError(f"{title} is no recording that can be read ({error})") from error

    def keep_simulated(self, title: str, runs: dict[str, Timeline]) -> dict:
        """Keep simulated runs by side; as an opened recording, where each run names its ``side``."""
        opened = self._keep(title, list(runs.values()))
        sides = [run | {"side": side} for side, run in zip(runs, opened["runs"])]
        return opened | {"runs": sides, "simulated": True}

    def _keep(self, title: str, runs: list[Timeline]) -> dict:
        """Keep the runs; returns what the page shows: a title, where it was made, and the runs to choose from."""
        runs = [run for run in runs if run.last_step > 0]
        if not runs:
            raise ValueError(f"{title} holds no run")
        for run in runs:
            run.state_at(run.last_seq)  # raises when its records do not follow from one another
        opened = []
        for run in runs[-KEPT:]:
            name = f"recording-{next(self._count)}"
            batching = run.info.get("config", {}).get("scheduling", {}).get("batching", "")
            opened.append({"name": name, "batching": batching, "steps": run.last_step, "first_step": run.first_step})
            with self._lock:
                self._runs[name] = run
                while len(self._runs) > KEPT:
                    self._runs.popitem(last=False)
        info = runs[-1].info
        return {"title": title, "device": info.get("device", ""), "date": info.get("date", "")[:10], "runs": opened}


def as_file(run: Timeline) -> bytes:
    """A run as the bytes of a recording."""
    file = io.BytesIO()
    save(file, run)
    return file.getvalue()
