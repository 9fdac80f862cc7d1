"""The one engine of a server: built once, unloaded for good, its death said in words (bug reports H-07, H-11)."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from engine.config import EngineConfig, WorkerConfig
from engine.driver import Driver
from pages.parts.desk import Desk
from pages.parts.seat import Seat
from pages.parts.session import Session

TAB = "tab-1"


def _until(true: Callable[[], object], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)


@pytest.fixture(scope="module")
def live() -> Iterator[Desk]:
    """A desk over a real engine with the bundled model; stopped at the end."""
    desk = Desk(Session(), Seat())
    yield desk
    desk.session.stop()


def test_H_07_many_tabs_at_once_build_one_engine() -> None:
    """Guards against one engine per tab or per rerun: the card would be full."""
    built = []

    def make(config: EngineConfig) -> object:
        built.append(config)
        time.sleep(0.05)
        return object()

    session = Session(make)
    gate = threading.Barrier(8)

    def visit() -> None:
        gate.wait()
        session.driver()

    threads = [threading.Thread(target=visit) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for _ in range(10):
        session.driver()
    assert len(built) == 1


def test_H_07_the_server_has_one_session_and_one_desk() -> None:
    """Guards the getters that pages and routes share."""
    from pages.parts import desk, session

    assert {id(desk.desk()) for _ in range(5)} == {id(desk.desk())} and desk.desk().session is session.session()


def test_a_model_that_cannot_be_loaded_is_said_in_words() -> None:
    """Guards against a start that fails silently in its thread."""
    session = Session()
    session.start(EngineConfig(worker=WorkerConfig(model="/nowhere/at/all")))
    _until(lambda: session.status().phase == "dead")
    assert "/nowhere/at/all" in session.status().words


def test_the_demo_shows_what_it_promises(live: Desk) -> None:
    """Guards the Theatre's first run: waiting with reasons, a prefix hit, an eviction and a preemption."""
    assert live.command({"command": "pace", "tab": TAB, "steps_s": 0}) == (200, {})
    assert live.command({"command": "demo", "tab": TAB}) == (200, {})
    assert live.session.status().phase == "starting" and live.session.status().words
    _until(lambda: (run := live.session.run()) and live.frame("auto", step=run.last_step)["finished_total"] == 24, 180)
    steps = range(1, live.session.run().last_step + 1)
    frames = [live.frame("auto", step=step) for step in steps]
    kinds = {event["kind"] for frame in frames for event in frame["events"]}
    assert {"hit", "evict", "preempt", "resume", "finish"} <= kinds
    assert any(frame["waiting"] and frame["waiting"][0]["text"].startswith("needs") for frame in frames)
    story = frames[-1]["preemption"]
    assert story["for"] and story["freed"] > 0 and story["lost"] > 0 and story["need"] > story["have"]
    assert all(frame["selected"] for frame in frames if frame["waiting"] or frame["running"])


def test_commands_are_checked_and_answered(live: Desk) -> None:
    """Guards the door: unknown commands, wrong types and foreign tabs get an answer, not a traceback."""
    live.seat.take(TAB)
    assert live.command({"command": "fly", "tab": TAB})[0] == 400
    assert live.command({"command": "pause", "tab": "tab-2"}) == (409, {"error": "notice.other_tab"})
    for bad in (
        {"prompt": 5, "max_tokens": 4},
        {"prompt": "x", "max_tokens": "4"},
        {"prompt": "x" * 5000, "max_tokens": 4},
    ):
        assert live.command({"command": "submit", "tab": TAB} | bad)[0] == 400
    assert live.command({"command": "abort", "tab": TAB, "request": 999})[0] == 200


def test_pause_step_and_resume_move_the_engine(live: Desk) -> None:
    """Guards the transport: one step is one step, and the view can go back meanwhile."""
    assert live.command({"command": "pause", "tab": TAB})[0] == 200
    before = live.session.run().last_step
    assert live.command({"command": "submit", "tab": TAB, "prompt": "Emma", "max_tokens": 5})[0] == 200
    _until(lambda: live.message(TAB, True, "auto", None)[1]["frame"]["waiting_total"] == 1)
    assert live.session.run().last_step == before
    live.command({"command": "step", "tab": TAB})
    _until(lambda: live.session.run().last_step == before + 1)
    assert live.frame("auto", step=before)["behind_steps"] == 1
    assert live.frame("auto", step=before + 2) is None
    live.command({"command": "resume", "tab": TAB})
    _until(lambda: live.message(TAB, True, "auto", None)[1]["frame"]["waiting_total"] == 0)


def test_slow_motion_is_steps_of_the_engine(live: Desk) -> None:
    """Guards the pace: steps come one by one, pause stops them at once, full speed ends the work."""
    assert live.command({"command": "pace", "tab": TAB, "steps_s": -1})[0] == 400
    live.command({"command": "pace", "tab": TAB, "steps_s": 20})
    begin = live.session.run().last_step
    live.command({"command": "submit", "tab": TAB, "prompt": "Emma", "max_tokens": 200})
    _until(lambda: live.session.run().last_step >= begin + 3)
    assert not live.session.status().paused and live.session.pacer.running
    live.command({"command": "pause", "tab": TAB})
    assert live.session.status().paused
    stood = live.session.run().last_step
    time.sleep(0.2)
    assert live.session.run().last_step - stood <= 1
    live.command({"command": "pace", "tab": TAB, "steps_s": 0})
    assert live.session.status().paused
    live.command({"command": "resume", "tab": TAB})
    _until(lambda: live.message(TAB, True, "auto", None)[1]["frame"]["running"] == [])


def test_a_stream_has_nothing_to_send_while_nothing_changes(live: Desk) -> None:
    """Guards against ten equal frames a second from an engine that stands still."""
    _until(lambda: not live.message(TAB, True, "auto", None)[1]["frame"]["running"])
    time.sleep(0.2)
    mark, message = live.message(TAB, True, "auto", None)
    again, short = live.message(TAB, True, "auto", mark)
    assert mark == again and "frame" in message and "frame" not in short


def test_a_killed_engine_is_said_and_can_be_restarted(live: Desk) -> None:
    """Guards against a page that waits for ever for a dead process; what was recorded stays readable."""
    steps = live.session.run().last_step
    os.kill(live.session.driver().pid, signal.SIGKILL)
    _until(lambda: live.session.status().phase == "dead")
    assert "SIGKILL" in live.message(TAB, True, "auto", None)[1]["engine"]["words"]
    assert live.frame("auto", step=steps)["step"] == steps
    assert live.command({"command": "restart", "tab": TAB})[0] == 200
    _until(lambda: live.session.status().phase == "ready")


def test_H_11_stop_ends_the_process(live: Desk) -> None:
    """Guards against memory that stays taken after unload: the process is gone, and with it all it held."""
    driver: Driver = live.session.driver()
    pid = driver.pid
    assert live.command({"command": "stop", "tab": TAB})[0] == 200
    assert live.session.status().phase == "off" and driver.pid is None
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_the_seat_lapses_and_can_be_handed_over() -> None:
    """Guards a classroom against a closed tab that keeps the engine for itself."""
    now = [0.0]
    seat = Seat(lambda: now[0])
    assert seat.seen_from("a") == "nobody" and seat.take("a") and not seat.take("b")
    now[0] = 29
    seat.heartbeat("a")
    seat.heartbeat("b")
    now[0] = 58
    assert seat.seen_from("a") == "me" and seat.seen_from("b") == "other"
    now[0] = 60
    assert seat.take("b") and seat.seen_from("a") == "other"
    seat.hand_over("a")
    assert seat.seen_from("b") == "me"
    seat.hand_over("b")
    assert seat.take("a")
