"""/v1 and /metrics on a real server, through OpenAI's own client and through raw requests."""

import http.client
import json
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import openai
import pytest
import uvicorn

from engine.bundled import MODEL_DIR
from engine.config import WorkerConfig
from engine.driver import Driver
from engine.serving.standalone import application
from tests.engine.conftest import HASH_WORKER, tiny_config
from tests.engine.hash_worker import expected

PATIENCE_S = 30
JSON = {"Content-Type": "application/json"}
ROOT = Path(__file__).parents[2]
TEMPLATE = "{% for message in messages %}[{{ message.role }}] {{ message.content }}\n{% endfor %}[assistant]"


class Site:
    """A server in a thread on a free port of this machine."""

    def __init__(self, driver: Driver) -> None:
        driver.start()
        driver.wait_ready(PATIENCE_S)
        self.driver = driver
        listener = socket.create_server(("127.0.0.1", 0))
        self.port = listener.getsockname()[1]
        self.server = uvicorn.Server(uvicorn.Config(application(driver), log_level="error"))
        self.thread = threading.Thread(target=self.server.run, kwargs={"sockets": [listener]}, daemon=True)
        self.thread.start()
        self.client = openai.OpenAI(base_url=f"http://127.0.0.1:{self.port}/v1", api_key="none", max_retries=0)

    def request(self, method: str, path: str, body: object = None, headers: dict | None = None) -> tuple[int, str]:
        """Status and text of a raw request."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        data = body if isinstance(body, str | None) else json.dumps(body)
        connection.request(method, path, data, JSON if headers is None else headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()

    def close(self) -> None:
        self.server.should_exit = True
        self.thread.join()
        self.driver.stop()


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    site = Site(Driver(tiny_config(), HASH_WORKER))
    yield site
    site.close()


def totals(driver: Driver) -> object:
    driver.trace.poll()
    return driver.trace.live.state_at(driver.trace.live.last_seq).totals


def until(condition: object) -> None:
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.01)


def text_of(prompt: str, seed: int, count: int) -> str:
    return bytes(expected(list(prompt.encode()), seed, count)).decode()


def test_completions_with_openais_client(site: Site) -> None:
    """Guards the shape of whole and streamed completions: what OpenAI's client expects, and the model's own text."""
    assert [model.id for model in site.client.models.list()] == ["tiny"]
    whole = site.client.completions.create(model="tiny", prompt="abc", seed=5, max_tokens=12)
    choice = whole.choices[0]
    assert (choice.text, choice.finish_reason) == (text_of("abc", 5, 12), "length")
    assert (whole.usage.prompt_tokens, whole.usage.completion_tokens) == (3, 12)
    options = {"include_usage": True}
    events = list(
        site.client.completions.create(
            model="tiny", prompt="abc", seed=5, max_tokens=12, stream=True, stream_options=options
        )
    )
    assert "".join(event.choices[0].text for event in events[:-1]) == choice.text
    reasons = [event.choices[0].finish_reason for event in events[:-1]]
    assert reasons[-1] == "length" and not any(reasons[:-1])
    assert events[-1].choices == [] and events[-1].usage.completion_tokens == 12


def test_stop_strings_and_several_prompts(site: Site) -> None:
    """Guards finish_reason and the order of choices."""
    stop = text_of("abc", 5, 8)[4:6]
    answer = site.client.completions.create(model="tiny", prompt=["abc", "xyz"], seed=5, max_tokens=8, stop=stop)
    assert [choice.index for choice in answer.choices] == [0, 1]
    assert (answer.choices[0].text, answer.choices[0].finish_reason) == (text_of("abc", 5, 4), "stop")
    assert answer.choices[1].text == text_of("xyz", 5, 8)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"top_p": 0}, "top_p"),
        ({"temperature": "hot"}, "temperature"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": True}, "max_tokens"),
        ({"prompt": []}, "prompt"),
        ({"prompt": [999]}, "prompt"),
        ({"prompt": {"a": 1}}, "prompt"),
        ({"prompt": "p" * 200}, "prompt"),
        ({"n": 3}, "n"),
        ({"temprature": 1}, "temprature"),
        ({"stop": [1]}, "stop"),
        ({"stop_token_ids": ["x"]}, "stop_token_ids"),
        ({"stream": "yes"}, "stream"),
    ],
)
def test_bad_fields_are_named(site: Site, fields: dict, param: str) -> None:
    """Guards 400s: OpenAI's shape, the offending field by name, and nothing ignored in silence."""
    status, text = site.request("POST", "/v1/completions", {"model": "tiny", "prompt": "abc", **fields})
    error = json.loads(text)["error"]
    assert (status, error["type"], error["param"]) == (400, "invalid_request_error", param)
    assert param in error["message"] and "\n" not in error["message"]


def test_a_refused_request_is_a_400_even_when_streamed(site: Site) -> None:
    """Guards refusals, which come from the engine: a status and a reason with numbers, not a broken stream."""
    small = Site(Driver(tiny_config(pool_blocks=4), HASH_WORKER))
    for stream in (False, True):
        body = {"prompt": "abc", "max_tokens": 60, "stream": stream}
        status, text = small.request("POST", "/v1/completions", body)
        assert status == 400 and "needs 16, at most 4" in json.loads(text)["error"]["message"]
    small.close()


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        (JSON | {"Host": "evil.example"}, 403),
        (JSON | {"Origin": "http://evil.example"}, 403),
        (JSON | {"Origin": "null"}, 403),
        ({"Content-Type": "text/plain"}, 400),
        ({}, 400),
        (JSON, 200),
    ],
)
def test_only_this_machine_and_origin(site: Site, headers: dict, status: int) -> None:
    """Guards against web pages: DNS rebinding (Host), foreign pages (Origin), forms (no JSON)."""
    body = json.dumps({"prompt": "abc", "max_tokens": 1})
    assert site.request("POST", "/v1/completions", body, headers)[0] == status
    own = JSON | {"Origin": f"http://127.0.0.1:{site.port}"}
    assert site.request("POST", "/v1/completions", body, own)[0] == 200


def test_broken_bodies(site: Site) -> None:
    """Guards the parser: what is no JSON object is a 400, and an unknown model a 404."""
    for body in ("{", "[]", '"text"'):
        assert site.request("POST", "/v1/completions", body)[0] == 400
    assert site.request("POST", "/v1/completions", {"model": "gpt", "prompt": "a"})[0] == 404


def test_E_08_chat_needs_a_chat_template(site: Site, tmp_path: Path) -> None:
    """E-08: a base model's chat used to end in an internal error. It is named; with a template chat works."""
    chat = {"messages": [{"role": "user", "content": "abc"}], "max_tokens": 4, "seed": 1}
    status, text = site.request("POST", "/v1/chat/completions", chat)
    assert status == 400 and "chat_template" in json.loads(text)["error"]["message"]
    shutil.copytree(MODEL_DIR, tmp_path / "model", ignore=shutil.ignore_patterns("*.safetensors"))
    (tmp_path / "model" / "chat_template.jinja").write_text(TEMPLATE)
    config = replace(tiny_config(), worker=WorkerConfig(model=str(tmp_path / "model"), device="cpu"))
    talking = Site(Driver(config, HASH_WORKER))
    model = str(tmp_path / "model")
    answer = talking.client.chat.completions.create(model=model, **chat)
    prompt = talking.driver.tokenizer.encode("[user] abc\n[assistant]")
    text = talking.driver.tokenizer.decode(expected(prompt, 1, 4))
    assert (answer.choices[0].message.content, answer.choices[0].message.role) == (text, "assistant")
    streamed = talking.client.chat.completions.create(model=model, stream=True, **chat)
    assert "".join(event.choices[0].delta.content for event in streamed) == text
    talking.close()


@pytest.mark.parametrize("stream", [True, False])
def test_I_05_a_client_that_goes_away_ends_its_request(site: Site, stream: bool) -> None:
    """I-05: a disconnected client used to leave its request running to the end."""
    site.driver.pause()
    aborted, arrived = totals(site.driver).aborted, totals(site.driver).arrived
    connection = http.client.HTTPConnection("127.0.0.1", site.port, timeout=PATIENCE_S)
    body = {"prompt": "abc", "max_tokens": 120, "stream": stream}
    connection.request("POST", "/v1/completions", json.dumps(body), JSON)
    until(lambda: totals(site.driver).arrived == arrived + 1)
    site.driver.step(3)
    connection.close()
    until(lambda: totals(site.driver).aborted == aborted + 1)
    site.driver.resume()


def test_metrics(site: Site) -> None:
    """Guards the exposition: every metric has help, type and a number, and counts what happened."""
    before = totals(site.driver).output_tokens
    site.client.completions.create(model="tiny", prompt="abc", max_tokens=7)
    until(lambda: totals(site.driver).output_tokens == before + 7)
    status, text = site.request("GET", "/metrics", headers={})
    values = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    assert status == 200 and float(values["flightdeck_up"]) == 1
    assert float(values["flightdeck_output_tokens_total"]) == before + 7
    assert float(values["flightdeck_kv_blocks_total"]) == 64
    helped = {line.split()[2] for line in text.splitlines() if line.startswith("# HELP")}
    assert helped == {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")} == set(values)


def test_a_stopped_engine_is_a_503() -> None:
    """Guards the front door while there is no engine: at once, and with the reason."""
    stopped = Site(Driver(tiny_config(), HASH_WORKER))
    stopped.driver.stop("out for lunch")
    status, text = stopped.request("POST", "/v1/completions", {"prompt": "abc"})
    assert status == 503 and "out for lunch" in json.loads(text)["error"]["message"]
    assert "flightdeck_up 0" in stopped.request("GET", "/metrics", headers={})[1]
    stopped.close()


def test_a_used_port_is_one_clear_line() -> None:
    """Guards ``serve``: no traceback and no loaded model when somebody already listens there."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code = "from engine.serving.standalone import run; from engine.config import EngineConfig;"
        code += f"run(EngineConfig(), port={port})"
        done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.count("\n") == 1 and str(port) in done.stderr
