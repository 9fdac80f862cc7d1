"""The routes behind the panels: log, prefix tree, replay page and questions, over an opened recording."""

import json
import time
import urllib.error
import urllib.request

import pytest
from test_pages_routes import JSON, served  # noqa: F401 - the fixture

from pages.parts.recordings import Recordings
from pages.parts.what_if import KEPT, WhatIf


@pytest.fixture
def opened(served: tuple) -> tuple[str, str, Recordings]:  # noqa: F811
    """Address, name of an opened run, and where recordings are kept."""
    address, desk = served
    return address, desk.recordings.open_shipped("demo.fdtrace")["runs"][-1]["name"], desk.recordings


def _get(address: str) -> dict:
    with urllib.request.urlopen(address) as answer:
        return json.load(answer)


def _answered(address: str, number: int) -> dict:
    end = time.monotonic() + 60
    while (answer := _get(f"{address}what_if?number={number}"))["phase"] == "running":
        assert time.monotonic() < end
        time.sleep(0.05)
    return answer


def _ask(address: str, body: object, headers: dict = JSON) -> dict:
    return _get(urllib.request.Request(address + "what_if", json.dumps(body).encode(), headers))


def test_log_and_tree_of_a_step(opened: tuple) -> None:
    """Guards the panels' schema: filtered lines around the step, nodes with what the page draws."""
    address, name, _ = opened
    log = _get(f"{address}log?recording={name}&step=96&groups=preempt,finish")
    assert {line["kind"] for line in log["lines"]} == {"preempt", "finish"} and 0 < log["here"] < log["total"]
    assert _get(f"{address}log?recording={name}&groups=&search=K")["total"] == 0
    tree = _get(f"{address}tree?recording={name}&step=96")
    assert tree["step"] == 96 and tree["order"][0]["block"] > 0
    assert {"depth", "blocks", "refs", "age", "evicted_after", "reachable", "text", "id"} <= tree["nodes"][0].keys()
    assert max(node["depth"] for node in tree["nodes"]) == 1 and tree["left_out"] == 0


def test_the_replay_page_comes_as_a_file_in_the_readers_language(opened: tuple) -> None:
    """Guards the button: a file, not a page of this server, and no run is a plain 404."""
    address, name, _ = opened
    with urllib.request.urlopen(f"{address}replay?recording={name}&lang=zh") as answer:
        assert "attachment" in answer.headers["Content-Disposition"] and b'lang="zh"' in answer.read(100)
    for path in ("replay", "log", "tree", "what_if"):
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(f"{address}{path}?recording=none&number=999")


def test_a_question_is_answered_in_the_background_and_can_be_watched(opened: tuple) -> None:
    """Guards the whole way: at once a number, then both sides, each a run that the Theatre shows as Simulated."""
    address, name, recordings = opened
    begun = _ask(address, {"question": "victim", "recording": name})
    assert begun["phase"] == "running"
    answer = _answered(address, begun["number"])
    assert answer["phase"] == "done" and {"measured", "before", "after", "relative", "settings"} <= answer.keys()
    assert [run["side"] for run in answer["opened"]["runs"]] == ["before", "after"]
    assert {recordings.run(run["name"]).provenance for run in answer["opened"]["runs"]} == {"Simulated"}


def test_questions_come_from_this_server_and_are_named(opened: tuple) -> None:
    """Guards the door: a question costs seconds of a core."""
    address, name, _ = opened
    for body, headers, status in (
        ({"question": "pool", "recording": name}, JSON | {"Origin": "null"}, 403),
        ({"question": "weather", "recording": name}, JSON, 400),
        ({"question": "pool", "recording": "none"}, JSON, 400),
        ([1], JSON, 400),
    ):
        with pytest.raises(urllib.error.HTTPError, match=str(status)):
            _ask(address, body, headers)


def test_a_failure_is_said_and_answers_do_not_pile_up() -> None:
    """Guards against a panel that waits for ever, and against a server that keeps every answer."""
    recordings = Recordings()
    run = recordings.run(recordings.open_shipped("demo.fdtrace")["runs"][-1]["name"]).frozen()
    run.info = {}
    desk = WhatIf(recordings)
    numbers = [desk.ask(run, "pool")["number"] for _ in range(KEPT + 2)]
    end = time.monotonic() + 30
    while desk.answer(numbers[-1])["phase"] == "running":
        assert time.monotonic() < end
        time.sleep(0.02)
    assert "no RUN record" in desk.answer(numbers[-1])["error"] and desk.answer(numbers[0]) is None
