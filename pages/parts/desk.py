"""What the routes ask: messages for a stream, one frame, one command. Joins session, seat and frames."""

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import asdict
from functools import cache
from itertools import count
from weakref import WeakKeyDictionary

from engine.config import EngineConfig
from engine.driver import Driver
from engine.errors import FlightdeckError, RequestRefused
from engine.request import SamplingParams
from engine.trace.checks import checks
from engine.trace.frame import frame
from engine.trace.timeline import Timeline
from pages.parts import demo
from pages.parts.recordings import Recordings, as_file
from pages.parts.seat import Seat
from pages.parts.session import Session, session

MAX_PROMPT = 4000  # characters
FRAMES_KEPT = 16
PACES = range(0, 241)  # steps a second; 0 is full speed
LOOKING = ("open",)  # commands that move no engine: any tab may give them at any time
Answer = tuple[int, dict]  # HTTP status, body


class Desk:
    """Serves all tabs of one session.

    Args:
        on: the session.
        seat: who drives.
    """

    def __init__(self, on: Session, seat: Seat) -> None:
        self.session, self.seat, self.recordings = on, seat, Recordings()
        self._frames: OrderedDict[tuple, dict] = OrderedDict()
        self._numbers: WeakKeyDictionary[Timeline, int] = WeakKeyDictionary()
        self._count = count(1)
        self._lock = threading.Lock()
        self._commands: dict[str, Callable[[dict], object]] = {
            "demo": lambda asked: on.when_ready(self._demo),
            "start": lambda asked: on.start(),
            "restart": lambda asked: on.restart(),
            "stop": lambda asked: on.stop(),
            "pause": lambda asked: on.pause(),
            "resume": lambda asked: on.resume(),
            "step": lambda asked: on.step(),
            "pace": lambda asked: on.pace(_whole(asked, "steps_s", PACES)),
            "abort": lambda asked: on.driver().abort(_whole(asked, "request")),
            "submit": self._submit,
            "open": lambda asked: self.recordings.open_shipped(str(asked.get("file"))),
        }

    def message(self, tab: str, follow: bool, selected: str, seen: object) -> tuple[object, dict]:
        """What a stream sends next.

        Args:
            tab: which tab asks; a sign of life for the seat.
            follow: with the newest frame, when it is not the one of ``seen``.
            selected: id of a request, or ``"auto"``; anything else selects none.
            seen: the mark of the last message of this stream.

        Returns:
            A mark, equal while there is nothing new, and the message.
        """
        self.seat.heartbeat(tab)
        status, run, drives = self.session.status(), self.session.run(), self.seat.seen_from(tab)
        seq, number = (run.last_seq, self._number(run)) if run else (-1, 0)
        pace = self.session.pacer.steps_s
        mark = (number, seq, status.phase, status.words, status.paused, status.busy, drives, self.session.notice, pace)
        engine = {
            "phase": status.phase,
            "words": status.words,
            "progress": status.progress,
            "since_s": round(status.since_s, 1),
            "paused": status.paused,
            "pace": pace,
            "busy": status.busy,
            "drives": drives,
            "notice": self.session.notice,
            "live_step": run.last_step if run else 0,
            "run": number,
        }
        message = {"engine": engine}
        if run and follow and mark != seen:
            message["frame"] = self._frame(run, seq, selected)
        return mark, message

    def frame(self, selected: str, step: int | None = None, seq: int | None = None, recording: str = "") -> dict | None:
        """The frame at the end of a step, or after a record; None when the run has not got there."""
        run = self.look_at(recording)
        if run is None or (step is not None and step > run.last_step):
            return None
        return self._frame(run, run.seq_of_step(step) if step is not None else (seq or 0), selected)

    def look_at(self, recording: str) -> Timeline | None:
        """The run that a tab looks at: a recording that it opened, else the newest of the engine."""
        return self.recordings.run(recording) if recording else self.session.run()

    def checks(self, recording: str) -> list[dict] | None:
        """The self-checks of a run, from its trace alone."""
        run = self.look_at(recording)
        return None if run is None else [asdict(check) for check in checks(run)]

    def save(self, recording: str) -> bytes | None:
        """A run as a recording."""
        run = self.look_at(recording)
        return None if run is None else as_file(run)

    def command(self, asked: dict) -> Answer:
        """Do what a tab asks of the engine. 409: another tab drives; 400: bad input; the body names the sentence."""
        tab, name = str(asked.get("tab", "")), asked.get("command")
        if name == "hand_over":
            self.seat.hand_over(tab)
            return 200, {}
        if name not in self._commands:
            return 400, {"error": "notice.unknown_command"}
        if name not in LOOKING and not (tab and self.seat.take(tab)):
            return 409, {"error": "notice.other_tab"}
        if name not in LOOKING and (busy := self.session.status().busy):
            return 409, {"error": "notice.busy", "detail": busy}
        return self._try(self._commands[name], asked)

    def start(self, tab: str, config: EngineConfig) -> Answer:
        """Start with a configuration, or change the model."""
        if not self.seat.take(tab):
            return 409, {"error": "notice.other_tab"}
        return self._try(lambda asked: self.session.start(config), {})

    def _try(self, do: Callable[[dict], object], asked: dict) -> Answer:
        try:
            answer = do(asked)
        except RequestRefused as error:
            return 400, {"error": "notice.refused", "detail": str(error)}
        except ValueError as error:
            return 400, {"error": "notice.invalid", "detail": str(error)}
        except FlightdeckError as error:
            return 409, {"error": "notice.failed", "detail": str(error)}
        return 200, answer if isinstance(answer, dict) else {}

    def _demo(self, driver: Driver) -> None:
        self.session.pacer.halt()
        demo.submit(driver)
        self.session.resume()

    def _submit(self, asked: dict) -> dict:
        prompt, length = asked.get("prompt"), _whole(asked, "max_tokens")
        if not isinstance(prompt, str) or not 0 < len(prompt) <= MAX_PROMPT:
            raise ValueError(f"prompt: text of 1 to {MAX_PROMPT} characters")
        params = SamplingParams(max_tokens=length, temperature=0.8, top_p=0.95)
        name = f"own-{next(self._count)}"
        if self.session.status().phase == "ready":
            self._run_own(self.session.driver(), prompt, params, name)
        else:
            self.session.when_ready(lambda driver: self._run_own(driver, prompt, params, name))
        return {"name": name}

    def _run_own(self, driver: Driver, prompt: str, params: SamplingParams, name: str) -> None:
        """Submit an own prompt; it runs at the pace that was chosen, or waits while the engine is paused."""
        stands = self.session.status().paused
        driver.submit(prompt, params, name)
        if not stands:
            self.session.resume()

    def _frame(self, run: Timeline, seq: int, selected: str) -> dict:
        """The frame, shared by the tabs that look at the same place; ``"auto"`` shows the head of the queue."""
        chosen = int(selected) if selected.isdigit() else None
        made = self._cached(run, seq, chosen)
        if selected == "auto" and (chosen := _most_telling(made)) is not None:
            return self._cached(run, seq, chosen)
        return made

    def _number(self, run: Timeline) -> int:
        """1, 2, ...: tells runs apart, also when a new one takes the place of an old one in memory."""
        with self._lock:
            if run not in self._numbers:
                self._numbers[run] = next(self._count)
            return self._numbers[run]

    def _cached(self, run: Timeline, seq: int, chosen: int | None) -> dict:
        live = run.last_seq
        key = (self._number(run), seq, chosen, live)
        with self._lock:
            made = self._frames.get(key)
        if made is None:
            made = frame(run, seq, chosen, live)
            with self._lock:
                self._frames[key] = made
                while len(self._frames) > FRAMES_KEPT:
                    self._frames.popitem(last=False)
        return made


def _most_telling(made: dict) -> int | None:
    """The request whose panel says most: the one that waits first, else the one that runs longest, else the last."""
    for place in ("waiting", "running"):
        if made[place]:
            return made[place][0]["id"]
    return made["finished"][-1]["id"] if made["finished"] else None


def _whole(asked: dict, field: str, among: range | None = None) -> int:
    value = asked.get(field)
    if not isinstance(value, int) or isinstance(value, bool) or (among is not None and value not in among):
        raise ValueError(f"{field}: a whole number" + (f" of {among.start} to {among.stop - 1}" if among else ""))
    return value


@cache
def _made() -> Desk:
    return Desk(session(), Seat())


_making = threading.Lock()


def desk() -> Desk:
    """The desk of this server, made once however many threads ask."""
    with _making:
        return _made()
