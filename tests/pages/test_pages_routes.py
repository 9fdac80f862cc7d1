"""The routes over a real server: frames, the stream, the files of the canvas and who may send commands."""

import json
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest
import uvicorn
from starlette.applications import Starlette

from pages.parts.live import routes
from tests.pages.sample_desk import SampleDesk
from tests.pages.sample_frames import SampleRun

JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[str, SampleDesk]]:
    """Address and desk of a running server."""
    desk = SampleDesk(SampleRun())
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(Starlette(routes=routes(desk)), log_level="error"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield f"http://127.0.0.1:{listener.getsockname()[1]}/flightdeck/", desk
    server.should_exit = True
    thread.join(5)


def _post(address: str, body: object, headers: dict) -> tuple[int, dict]:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    request = urllib.request.Request(address + "command", data, headers)
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def test_commands_come_from_this_server_only(served: tuple[str, SampleDesk]) -> None:
    """Guards against another web site, or a name that points here, driving the engine of a visitor."""
    address, desk = served
    desk.commands.clear()
    own = address.split("/flightdeck")[0]
    command = {"command": "note", "tab": "t"}
    assert _post(address, command, JSON)[0] == 200
    assert _post(address, command, JSON | {"Origin": own})[0] == 200
    for wrong in ({"Origin": "http://evil.example"}, {"Origin": "null"}, {"Host": "evil.example"}):
        assert _post(address, command, JSON | wrong)[0] == 403, wrong
    assert _post(address, command, {"Content-Type": "text/plain"})[0] == 403
    assert _post(address, b"not json", JSON)[0] == 400 and _post(address, [1], JSON)[0] == 400
    assert len(desk.commands) == 2


def test_the_stream_sends_the_newest_frame_and_signs_of_life(served: tuple[str, SampleDesk]) -> None:
    """Guards the feed: at once a message, at most ten a second, still some while paused."""
    address, desk = served
    desk.command({"command": "resume"})
    with urllib.request.urlopen(address + "live?cursor=live&selected=2&tab=t") as stream:
        assert stream.headers["Content-Type"].startswith("text/event-stream")
        steps = [_next(stream)["frame"]["step"] for _ in range(4)]
        assert steps == sorted(set(steps))
        desk.command({"command": "pause"})
        while "frame" in (message := _next(stream)):
            pass
        assert message["engine"]["paused"]
    with urllib.request.urlopen(address + "live?cursor=held") as held:
        assert "frame" not in _next(held)


def test_one_frame_by_step(served: tuple[str, SampleDesk]) -> None:
    """Guards the scrubber: the frame asked for, and 404 for one that is not there."""
    address, _ = served
    with urllib.request.urlopen(address + "frame?step=17&selected=1") as answer:
        frame = json.load(answer)
    assert frame["step"] == 17 and frame["selected"]["id"] == 1
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(address + "frame?step=999999")


@pytest.mark.parametrize("path", ["web/..%2flive.py", "web/none.js", "web/%2e%2e/desk.py", "web/theatre.py"])
def test_only_files_of_the_canvas_are_served(served: tuple[str, SampleDesk], path: str) -> None:
    """Guards against reading other files of the machine."""
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(served[0] + path)
    with urllib.request.urlopen(served[0] + "web/theatre.js") as answer:
        assert answer.headers["Content-Type"].startswith("text/javascript")


def _next(stream: object) -> dict:
    while not (line := stream.readline()).startswith(b"data: "):
        pass
    return json.loads(line[6:])
