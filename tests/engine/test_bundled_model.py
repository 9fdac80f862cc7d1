"""The whole way on the bundled model: driver, child process, scheduler, torch worker, trace and back."""

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from engine.config import EngineConfig, SchedulingConfig, WorkerConfig
from engine.driver import Driver
from engine.errors import EngineStopped
from engine.loading import load_model
from engine.request import SamplingParams
from engine.trace.recorder import ListSink
from engine.trace.timeline import split_runs

PATIENCE_S = 120
GREEDY = SamplingParams(max_tokens=24, temperature=0, ignore_eos=True)
PROMPTS = [f"In the beginning {i}" for i in range(6)]
CONFIG = EngineConfig(SchedulingConfig(max_model_len=256), WorkerConfig(device="cpu"), pool_blocks=16)


@pytest.fixture(scope="module")
def driver() -> Iterator[Driver]:
    driver = Driver(CONFIG)
    driver.start()
    driver.wait_ready(PATIENCE_S)
    yield driver
    driver.stop()


def test_streams_pauses_and_aborts(driver: Driver) -> None:
    """Guards the thread through the house: text streams, a pause holds it, a step moves it, an abort ends it."""
    stream = driver.submit(PROMPTS[0], GREEDY)
    deltas = list(stream)
    ids = [token for delta in deltas for token in delta.token_ids]
    assert len(ids) == 24 and "".join(delta.text for delta in deltas) == driver.tokenizer.decode(ids)
    driver.pause()
    again, other = driver.submit(PROMPTS[0], GREEDY), driver.submit(PROMPTS[1], GREEDY, name="other")
    assert driver.step(3) == 3 and not again.ended
    assert driver.abort("other")
    assert other.result(PATIENCE_S).cause == "abort"
    driver.resume()
    assert again.result(PATIENCE_S).token_ids == ids


def test_threads_share_the_engine_without_changing_its_answers(driver: Driver) -> None:
    """Guards batching under memory pressure: alone or among others, preempted or not, an answer is the same."""
    alone = [driver.submit(prompt, GREEDY).result(PATIENCE_S).token_ids for prompt in PROMPTS]

    def ask(prompt: str) -> list[int]:
        return driver.submit(prompt, GREEDY).result(PATIENCE_S).token_ids

    with ThreadPoolExecutor(len(PROMPTS)) as threads:
        assert list(threads.map(ask, PROMPTS)) == alone


def test_the_recording_is_complete() -> None:
    """Guards the trace: folding the records of a run on the real model ends in the engine's own snapshot."""
    sink = ListSink()
    model = load_model(CONFIG, [sink])
    engine = model.new_engine({"steps_in_flight": 1})
    for prompt in PROMPTS:
        engine.submit(prompt, GREEDY)
    for _ in range(20):
        engine.step()
    engine.drain()
    run = split_runs(sink.records)[-1]
    assert run.state_at(run.last_seq).snapshot() == engine.scheduler.snapshot()
    engine.run()
    run = split_runs(sink.records)[-1]
    assert run.state_at(run.last_seq).snapshot() == engine.scheduler.snapshot()
    assert run.state_at(run.last_seq).totals.finished == len(PROMPTS)
    model.close()


def test_the_ring_brings_everything_across(driver: Driver) -> None:
    """Guards the ring between the processes: nothing lost, and the last state is that of an idle engine."""
    driver.submit(PROMPTS[2], GREEDY).result(PATIENCE_S)
    driver.pause()
    driver.trace.poll()
    live = driver.trace.live
    state = live.state_at(live.last_seq)
    assert live.holes == 0 and state.paused and not state.running and not state.waiting
    assert state.totals.arrived == state.totals.finished + state.totals.aborted
    driver.resume()


def test_killed_restarted_and_changed(driver: Driver) -> None:
    """Guards the process: a kill is a typed error, a restart works, and another model takes the place of the first."""
    driver.pause()
    stream = driver.submit(PROMPTS[0], GREEDY)
    os.kill(driver.pid, signal.SIGKILL)
    with pytest.raises(EngineStopped, match="SIGKILL"):
        stream.result(PATIENCE_S)
    driver.start()
    driver.wait_ready(PATIENCE_S)
    assert len(driver.submit(PROMPTS[0], GREEDY).result(PATIENCE_S).token_ids) == 24
    driver.change_model(EngineConfig(CONFIG.scheduling, WorkerConfig(random_weights="tiny", device="cpu")))
    driver.wait_ready(PATIENCE_S)
    answer = driver.submit("any bytes", SamplingParams(max_tokens=5, seed=1)).result(PATIENCE_S)
    assert len(answer.token_ids) == 5 and driver.trace.live.info["model"] == "tiny"
