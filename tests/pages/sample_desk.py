"""A desk over a ``SampleRun``: the drawing can be opened in a browser without an engine."""

import time
from dataclasses import asdict

from engine.trace.checks import checks
from engine.trace.timeline import Timeline
from pages.parts.recordings import Recordings, as_file
from tests.pages.sample_frames import SampleRun


class SampleDesk:
    """Runs ten toy steps a second until paused. Stands where ``pages.parts.desk.Desk`` does.

    Args:
        run: the toy run to show.
    """

    def __init__(self, run: SampleRun) -> None:
        self.run, self.paused, self.phase = run, False, "ready"
        self._started, self._stood = time.monotonic(), 200
        self.commands: list[dict] = []
        self.recordings = Recordings()

    @property
    def live(self) -> int:
        """The engine's step."""
        return self._stood if self.paused else 200 + int((time.monotonic() - self._started) * 10)

    def message(self, tab: str, follow: bool, selected: str, seen: object) -> tuple[object, dict]:
        """As the real desk: a mark that changes with the content, and the message."""
        live = self.live
        mark = (live, self.paused, self.phase)
        engine = {"phase": self.phase, "words": "", "paused": self.paused, "live_step": live, "drives": "me"}
        message = {"engine": engine}
        if follow and mark != seen and self.phase == "ready":
            message["frame"] = self.run.frame(live, _chosen(selected), live)
        return mark, message

    def frame(self, selected: str, step: int = 1, seq: int = 0, recording: str = "") -> dict | None:
        """The frame at a step."""
        return self.run.frame(step, _chosen(selected), self.live) if step <= self.live else None

    def look_at(self, recording: str) -> Timeline | None:
        """An opened recording; the toy run has no records."""
        return self.recordings.run(recording)

    def checks(self, recording: str) -> list[dict] | None:
        """The self-checks of an opened recording; the toy run has none."""
        run = self.recordings.run(recording)
        return None if run is None else [asdict(check) for check in checks(run)]

    def save(self, recording: str) -> bytes | None:
        """An opened recording as a file."""
        run = self.recordings.run(recording)
        return None if run is None else as_file(run)

    def command(self, asked: dict) -> tuple[int, dict]:
        """Takes every command; pause, resume and step do what they say."""
        self.commands.append(asked)
        self._stood = self.live + (asked["command"] == "step")
        self._started = time.monotonic() - (self._stood - 200) / 10
        self.paused = {"pause": True, "resume": False}.get(asked["command"], self.paused)
        return 200, {"ok": True}


def _chosen(selected: str) -> int:
    return int(selected) if selected.isdigit() else 8
