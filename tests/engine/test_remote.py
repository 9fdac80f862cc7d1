"""Driving a server by URL: our own, and servers that answer badly."""

import asyncio
import socket
import threading
from collections.abc import Iterator

import pytest
import uvicorn

from engine.driver import Driver
from engine.errors import InvalidRequest
from engine.serving.standalone import application
from engine.workload import lengths
from engine.workload.contestants import race_url
from engine.workload.http_stream import ServerError, server_at
from engine.workload.items import Item, Workload
from engine.workload.race_spec import RaceSpec
from engine.workload.remote import ask, drive_url
from tests.engine.conftest import HASH_WORKER, tiny_config

PATIENCE_S = 30


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """Our own server over the hash model."""
    driver = Driver(tiny_config(), worker=HASH_WORKER)
    driver.start()
    driver.wait_ready(PATIENCE_S)
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(application(driver), log_level="error"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    server.should_exit = True
    thread.join()
    driver.stop()


def items(count: int, tokens: int = 5) -> Workload:
    return Workload("x", [Item([7] * (3 + n), tokens, tokens) for n in range(count)], 0)


def test_our_own_server_is_measured(url):
    """Guards the whole way: tokens by usage, one first token and the gaps behind it for each answer, closed loop."""
    server = server_at(url + "/v1")
    served = ask(server)
    found = drive_url(server, items(6), served.model, concurrency=2)
    assert (served.model, served.max_model_len) == ("tiny", 128)
    assert (found["completed"], found["failed"], found["error"]) == (6, 0, "")
    assert (found["total_input_tokens"], found["total_output_tokens"]) == (sum(range(3, 9)), 30)
    assert found["output_throughput"] == pytest.approx(30 / found["duration_s"])
    assert 0 < found["median_ttft_ms"] <= found["median_e2el_ms"] and found["p99_itl_ms"] > 0


def test_requests_are_sent_at_their_time(url):
    """Guards the open loop: a request that arrives later is sent later."""
    late = Workload("x", [Item([7], 2, 2), Item([7], 2, 2, arrival_s=0.4)], 0)
    assert drive_url(server_at(url), late, "tiny")["duration_s"] >= 0.4


def test_a_race_can_be_run_on_a_server(url):
    """Guards the contestant by URL: the race's own requests, cut to what the server says it takes."""
    found = race_url(url, RaceSpec(requests=4, rows=2), 256)
    assert found["model"] == "tiny" and found["completed"] == 4
    wanted = sum(min(item.output_length, 127) for item in lengths.race(4, 1.0, 0, 256).items)
    assert found["total_output_tokens"] == wanted


def test_a_refused_request_is_told_in_the_words_of_the_server(url):
    """Guards the errors: some may fail (counted, first reason kept); when all do, that reason is the error."""
    mixed = Workload("x", [Item([7], 2, 2), Item([9999], 2, 2)], 0)
    found = drive_url(server_at(url), mixed, "tiny")
    assert (found["completed"], found["failed"]) == (1, 1) and "token ids in 0..255" in found["error"]
    with pytest.raises(ServerError, match="status 404: model 'nope' is not loaded"):
        drive_url(server_at(url), items(2), "nope")


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"SSH-2.0-x\r\n\r\n", "not an HTTP answer"),
        (b'HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n{"data": []}', "serves no model"),
        (b"HTTP/1.1 500 Oops\r\n\r\nbroken", "status 500"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\nshort", "the server broke off"),
        (b"", "the server broke off"),
    ],
)
def test_a_server_that_answers_badly_is_an_error_of_one_line(answer, words):
    """Guards against a stack trace: whatever stands behind a port, the message says what was wrong with it."""

    async def talk() -> None:
        async def reply(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(answer)
            await writer.drain()
            writer.close()

        async with await asyncio.start_server(reply, "127.0.0.1", 0) as listener:
            port = listener.sockets[0].getsockname()[1]
            await asyncio.to_thread(ask, server_at(f"http://127.0.0.1:{port}"))

    with pytest.raises(ServerError, match=words):
        asyncio.run(talk())


def test_nothing_behind_a_port_is_said():
    """Guards the commonest mistake: the server has not been started."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(ServerError, match="nothing answers at http:"):
        ask(server_at(f"http://127.0.0.1:{port}"))


@pytest.mark.parametrize("wrong", ["127.0.0.1:8000", "ftp://localhost", "http://", "http://localhost:port"])
def test_a_wrong_url_names_the_form(wrong):
    """Guards bad input: the form of a URL, before anything is sent."""
    with pytest.raises(InvalidRequest, match="url: http://HOST:PORT"):
        server_at(wrong)


def test_another_machine_must_be_asked_for():
    """Guards the promise that nothing leaves this machine unless a person says so."""
    with pytest.raises(InvalidRequest, match="--remote"):
        server_at("http://example.com:8000")
    assert server_at("https://example.com/v1", remote=True).port == 443
