"""Recordings in the Theatre: what was saved opens again, on any machine; what is no recording is refused in words."""

import gzip
import json
import urllib.error
import urllib.request

import pytest
from test_pages_routes import served  # noqa: F401 - the fixture
from test_pages_sources import one_long_answer

from engine.trace.files import HEADER, MAGIC
from engine.trace.frame import frame
from pages.parts.recordings import KEPT, Recordings, as_file

BYTES = {"Content-Type": "application/octet-stream"}


def test_what_was_saved_opens_again() -> None:
    """Guards "the same page works on a recording": equal frames, and a badge that says Recorded."""
    run = one_long_answer(40)
    recordings = Recordings()
    opened = recordings.open_bytes("mine", as_file(run))
    again = recordings.run(opened["runs"][0]["name"])
    for step in (1, 20, 40):
        before, after = (frame(one, one.seq_of_step(step), 0) for one in (run, again))
        assert after["run"].pop("provenance") == "Recorded" and before["run"].pop("provenance") == "Measured"
        assert before == after


def test_the_recordings_of_this_tree_open() -> None:
    """Guards the files that ship: each opens, each run has steps; no other file of the machine does."""
    recordings = Recordings()
    for file in recordings.shipped():
        assert all(run["steps"] > 0 for run in recordings.open_shipped(file)["runs"])
    with pytest.raises(ValueError, match="no recording"):
        recordings.open_shipped("../../pages/main.py")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"not gzip",
        b"\x1f\x8b\x08",
        gzip.compress(b"not a recording"),
        gzip.compress(HEADER.pack(MAGIC, 99)),
        gzip.compress(HEADER.pack(MAGIC, 1) + bytes(range(256)) * 8),
    ],
)
def test_what_is_no_recording_is_refused_in_words(data: bytes) -> None:
    """Guards the door: a wrong file is answered with a sentence, not with a traceback."""
    with pytest.raises(ValueError):
        Recordings().open_bytes("wrong", data)


def test_opened_recordings_do_not_pile_up() -> None:
    """Guards the server's memory against a class that opens files all day."""
    recordings, data = Recordings(), as_file(one_long_answer(3))
    names = [recordings.open_bytes("one", data)["runs"][0]["name"] for _ in range(KEPT + 2)]
    assert recordings.run(names[0]) is None and recordings.run(names[-1]) is not None


def test_upload_replay_check_and_download(served: tuple) -> None:  # noqa: F811
    """Guards the routes: bytes in, frames and checks out, the same bytes back; other sites cannot send."""
    address, _ = served
    data = as_file(one_long_answer(20))
    post = urllib.request.Request(address + "recording?title=mine", data, BYTES)
    with urllib.request.urlopen(post) as answer:
        name = json.load(answer)["runs"][0]["name"]
    with urllib.request.urlopen(f"{address}checks?recording={name}") as answer:
        assert {"complete", "blocks", "tokens"} <= {check["id"] for check in json.load(answer)}
    with urllib.request.urlopen(f"{address}recording?recording={name}") as answer:
        assert gzip.decompress(answer.read()) == gzip.decompress(data)
    for headers in (BYTES | {"Origin": "http://evil.example"}, {"Content-Type": "text/plain"}):
        with pytest.raises(urllib.error.HTTPError, match="403"):
            urllib.request.urlopen(urllib.request.Request(address + "recording", data, headers))
    with pytest.raises(urllib.error.HTTPError, match="400"):
        urllib.request.urlopen(urllib.request.Request(address + "recording", b"wrong", BYTES))
