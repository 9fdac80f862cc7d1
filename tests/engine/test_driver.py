"""The driver and its child process, with the hash model: threads, pauses, deaths, restarts."""

import asyncio
import gc
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from engine import link
from engine.config import WorkerConfig
from engine.driver import Driver
from engine.errors import EngineStopped, InvalidRequest, RequestRefused, UnsupportedModel
from engine.request import SamplingParams
from engine.workload.race_spec import RaceSpec
from tests.engine.conftest import HASH_WORKER, HERE, tiny_config
from tests.engine.hash_worker import expected

PATIENCE_S = 30


@pytest.fixture
def driver() -> Iterator[Driver]:
    driver = Driver(tiny_config(), HASH_WORKER)
    driver.start()
    driver.wait_ready(PATIENCE_S)
    yield driver
    driver.stop()


def until(condition: Callable[[], bool]) -> None:
    """Wait for something that another process does."""
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.01)


def totals(driver: Driver) -> object:
    """Running totals of the live run, everything written so far included."""
    driver.trace.poll()
    return driver.trace.live.state_at(driver.trace.live.last_seq).totals


def is_running(pid: int) -> bool:
    """True unless the process is gone or a zombie that nobody has waited for."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def endless(seed: int = 1) -> SamplingParams:
    """An answer that is long enough to be interrupted."""
    return SamplingParams(max_tokens=120, seed=seed)


def test_answers_from_several_threads(driver: Driver) -> None:
    """Guards the pipe: eight threads that submit at the same time each get their own answer."""

    def ask(i: int) -> bool:
        prompt = f"thread {i}"
        answer = driver.submit(prompt, SamplingParams(max_tokens=20, seed=i)).result(PATIENCE_S)
        return answer.token_ids == expected(list(prompt.encode()), i, 20) and answer.cause == "length"

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(ask, range(40)))


def test_H_07_many_starts_make_one_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """H-07: tabs that open at once each used to build an engine, until the device was full."""
    started = []
    spawn = link.spawn
    monkeypatch.setattr(link, "spawn", lambda: started.append(1) or spawn())
    driver = Driver(tiny_config(), HASH_WORKER)
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda _: driver.start(), range(8)))
    for _ in range(10):
        driver.start()
    driver.wait_ready(PATIENCE_S)
    driver.stop()
    assert len(started) == 1


def test_bad_requests_are_rejected_before_anything_is_sent(driver: Driver) -> None:
    """Guards the caller's thread as the place of errors: the engine never hears of a bad request."""
    bad: list[tuple[object, SamplingParams, str]] = [
        ("", SamplingParams(), "prompt"),
        ([], SamplingParams(), "prompt"),
        ([256], SamplingParams(), "0..255"),
        ("p" * 128, SamplingParams(), r"127 tokens .*'128 tokens'"),
        ("abc", SamplingParams(top_p=0), "top_p"),
        ("abc", SamplingParams(max_tokens=0), "max_tokens"),
        ("abc", SamplingParams(seed=2**63), "seed"),
    ]
    for prompt, params, message in bad:
        with pytest.raises(InvalidRequest, match=message):
            driver.submit(prompt, params)
    small = Driver(tiny_config(pool_blocks=8), HASH_WORKER)
    with pytest.raises(EngineStopped, match="not started"):
        small.submit("abc")
    assert totals(driver).arrived == 0


def test_a_refused_request_says_why(tmp_path: Path) -> None:
    """Guards refusals across the process boundary: a typed error with its numbers, and the engine serves on."""
    driver = Driver(tiny_config(pool_blocks=8), HASH_WORKER)
    driver.start()
    driver.wait_ready(PATIENCE_S)
    with pytest.raises(InvalidRequest, match=r"at most 31 tokens \(the KV pool holds 32"):
        driver.submit("p" * 40)
    with pytest.raises(RequestRefused, match=r"needs 16, at most 8"):
        driver.submit("abc", SamplingParams(max_tokens=60)).result(PATIENCE_S)
    assert driver.submit("abc", SamplingParams(max_tokens=2)).result(PATIENCE_S).cause == "length"
    driver.stop()


def test_B_07_names_are_unique_while_live(driver: Driver) -> None:
    """B-07: a name in use is an error of the caller; once its request has ended it is free again."""
    driver.pause()
    driver.submit("abc", endless(), name="r")
    with pytest.raises(InvalidRequest, match="'r'"):
        driver.submit("abc", endless(), name="r")
    assert driver.abort("r") and not driver.abort("r")
    again = driver.submit("xyz", SamplingParams(max_tokens=5, seed=2), name="r")
    driver.resume()
    assert again.result(PATIENCE_S).token_ids == expected(list(b"xyz"), 2, 5)


def test_pause_step_resume(driver: Driver) -> None:
    """Guards the transport bar: a paused engine moves by exactly the steps asked for, and arrivals wait."""
    driver.pause()
    stream = driver.submit("abc", SamplingParams(max_tokens=10, seed=4))
    assert driver.state == "paused" and driver.step(1) == 1 and driver.step(3) == 3
    until(lambda: totals(driver).output_tokens == 4)
    assert not stream.ended
    with pytest.raises(InvalidRequest, match="count"):
        driver.step(0)
    driver.resume()
    assert driver.state == "ready"
    assert stream.result(PATIENCE_S).token_ids == expected(list(b"abc"), 4, 10)
    assert driver.step(5) == 0, "an idle engine has no step to run"


def test_I_05_leaving_a_stream_ends_its_request(driver: Driver) -> None:
    """I-05: a client that went away used to leave its request running."""
    driver.pause()
    closed, lost, kept = (driver.submit("abc", endless(seed)) for seed in (1, 2, 3))
    driver.step(4)
    reading = iter(closed)
    for _ in range(3):
        next(reading)
    reading.close()
    forgotten = iter(lost)
    next(forgotten)
    del forgotten
    gc.collect()
    driver.step(1)
    until(lambda: totals(driver).aborted == 2)
    assert closed.result(PATIENCE_S).cause == lost.result(PATIENCE_S).cause == "abort"
    driver.resume()
    assert kept.result(PATIENCE_S).token_ids == expected(list(b"abc"), 3, 120)
    driver.trace.poll()
    state = driver.trace.live.state_at(driver.trace.live.last_seq)
    assert not state.running and not any(state.snapshot()["refs"])


def test_streams_are_async_too(driver: Driver) -> None:
    """Guards /v1: an asynchronous reader gets every delta, and leaving early ends the request."""

    async def read_whole() -> list[int]:
        stream = driver.submit("abc", SamplingParams(max_tokens=30, seed=6))
        return [token async for delta in stream for token in delta.token_ids]

    async def leave_early() -> str:
        stream = driver.submit("abc", endless())
        reading = aiter(stream)
        await anext(reading)
        await reading.aclose()
        return (await asyncio.to_thread(stream.result, PATIENCE_S)).cause

    assert asyncio.run(read_whole()) == expected(list(b"abc"), 6, 30)
    driver.pause()
    early = threading.Thread(target=lambda: (driver.step(2), driver.resume()))
    early.start()
    assert asyncio.run(leave_early()) in ("abort", "length")
    early.join()


def test_a_killed_engine_ends_every_wait_and_can_be_restarted(driver: Driver) -> None:
    """Guards crashes: streams and calls end with a typed error that says what happened; nothing hangs."""
    driver.pause()
    stream = driver.submit("abc", endless())
    os.kill(driver.pid, signal.SIGKILL)
    with pytest.raises(EngineStopped, match="SIGKILL"):
        stream.result(PATIENCE_S)
    with pytest.raises(EngineStopped):
        list(stream)
    until(lambda: driver.state == "failed")
    assert "SIGKILL" in driver.reason and driver.pid is None
    with pytest.raises(EngineStopped, match="SIGKILL"):
        driver.submit("abc")
    with pytest.raises(EngineStopped):
        driver.pause()
    driver.start()
    driver.wait_ready(PATIENCE_S)
    assert driver.submit("abc", SamplingParams(max_tokens=3, seed=1)).result(PATIENCE_S).cause == "length"


def test_stop_aborts_what_runs(driver: Driver) -> None:
    """Guards unloading: live requests end as aborted, the process is gone, and stopping twice does no harm."""
    driver.pause()
    stream, pid = driver.submit("abc", endless()), driver.pid
    driver.stop("done for today")
    assert stream.result(PATIENCE_S).cause == "abort"
    assert (driver.state, driver.reason) == ("stopped", "done for today")
    assert not is_running(pid)
    driver.stop()
    assert driver.trace.live.state_at(driver.trace.live.last_seq).totals.aborted == 1


def test_change_model_leaves_the_old_one_alone_when_the_new_one_is_wrong(driver: Driver) -> None:
    """Guards a mistyped model: the running engine goes on; a right one replaces it and has a trace of its own."""
    pid = driver.pid
    for wrong, error in (
        (replace(driver.config, worker=WorkerConfig(model="/no/such/model")), UnsupportedModel),
        (replace(driver.config, pool_blocks=0), InvalidRequest),
    ):
        with pytest.raises(error):
            driver.change_model(wrong)
    assert driver.pid == pid
    driver.change_model(tiny_config(pool_blocks=16))
    driver.wait_ready(PATIENCE_S)
    assert driver.pid != pid and driver.limits.pool_tokens == 64
    assert driver.trace.live.info["pool"]["blocks"] == 16


def test_a_load_that_fails_says_why() -> None:
    """Guards start-up: the child's typed error reaches whoever waits, and the driver can be used again."""
    driver = Driver(tiny_config(), "hash_worker:NoSuchWorker")
    driver.start()
    with pytest.raises(EngineStopped, match="NoSuchWorker"):
        driver.wait_ready(PATIENCE_S)
    assert driver.state == "failed" and "NoSuchWorker" in driver.reason


def test_exclusive_work_finds_the_engine_still(driver: Driver) -> None:
    """Guards measurements beside the engine: nothing runs meanwhile, and the user's own pause survives it."""
    stream = driver.submit("abc", endless())
    with driver.exclusive("calibrating"):
        assert driver.state == "paused" and driver.busy == "calibrating"
        before = totals(driver).output_tokens
        driver.resume()
        time.sleep(0.05)
        assert totals(driver).output_tokens == before
    assert stream.result(PATIENCE_S).cause == "length" and driver.busy == ""
    driver.pause()
    with driver.exclusive():
        pass
    until(lambda: driver.state == "paused")


def test_a_race_runs_inside_and_a_fresh_run_follows(driver: Driver) -> None:
    """Guards the Arena: same loaded model, each run in the trace, live requests aborted, then a new live run."""
    driver.pause()
    stream = driver.submit("abc", endless())
    driver.resume()
    heard: list[tuple[str, float]] = []
    spec = RaceSpec(requests=4, rows=2, repeats=1, schedulers=("static", "in_flight"))
    result = driver.race(spec, lambda text, done: heard.append((text, done)))
    assert set(result["schedulers"]) == {"static", "in_flight"} and result["tokens_identical"]
    assert heard and stream.result(PATIENCE_S).cause in ("abort", "length")
    assert driver.submit("abc", SamplingParams(max_tokens=5, seed=1)).result(PATIENCE_S).cause == "length"
    driver.trace.poll()
    batching = [run.info["config"]["scheduling"]["batching"] for run in driver.trace.runs]
    assert batching[-3:] == ["static", "in-flight", "in-flight"]
    assert driver.trace.live.info["config"]["scheduling"]["max_num_seqs"] == 8


def test_the_child_ends_with_its_parent() -> None:
    """Guards orphans: however the app dies, no engine process stays behind with the device's memory."""
    code = """
        import os, signal, sys
        sys.path[:0] = [sys.argv[1]]
        from conftest import HASH_WORKER, tiny_config
        from engine.driver import Driver
        driver = Driver(tiny_config(), HASH_WORKER)
        driver.start()
        driver.wait_ready(30)
        print(driver.pid, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), str(HERE)],
        cwd=HERE.parents[1],
        capture_output=True,
        text=True,
        check=False,
    )
    child = int(done.stdout)
    until(lambda: not is_running(child))
