"""Recordings on disk."""

import gzip

import pytest

from engine.trace.events import SCHEMA_VERSION
from engine.trace.files import HEADER, MAGIC, FileSink, load, save
from engine.trace.frame import frame
from engine.trace.timeline import split_runs
from tests.trace.trace_runs import Played, Scenario


@pytest.fixture(scope="module")
def records():
    """A short run of the real scheduler."""
    return Played(Scenario.draw(3)).records


def test_a_saved_recording_loads_equal(tmp_path, records):
    """Nothing is lost between memory and disk."""
    save(tmp_path / "run.trace", records)
    assert load(tmp_path / "run.trace") == records


def test_a_recording_written_while_running_is_the_same(tmp_path, records):
    """The sink compresses in its own thread: order and end must hold."""
    played = Played(Scenario.draw(3))
    sink = FileSink(tmp_path / "run.trace")
    for data in played.sink.data:
        sink.write(data)
    sink.close()
    assert load(tmp_path / "run.trace") == played.records


def test_a_recording_replays_with_its_text(tmp_path, records):
    """No tokenizer, no device: words and blocks come from the file alone, and it says that it is recorded."""
    save(tmp_path / "run.trace", records)
    [run] = split_runs(load(tmp_path / "run.trace"))
    request = run.state_at(run.seq_of_step(1)).running[0]
    shown = frame(run, run.seq_of_step(1), request)
    tokens = run.state_at(run.last_seq).requests[request].token_ids
    prompt = run.state_at(run.last_seq).requests[request].prompt_length
    assert shown["selected"]["prompt_text"] == "".join(f"t{token} " for token in tokens[:prompt])
    assert shown["run"]["provenance"] == "Recorded"


def test_a_newer_recording_is_refused_with_one_line(tmp_path):
    """An old program must not guess at new fields."""
    path = tmp_path / "new.trace"
    path.write_bytes(gzip.compress(HEADER.pack(MAGIC, SCHEMA_VERSION + 1)))
    with pytest.raises(ValueError, match=f"reads up to {SCHEMA_VERSION}: update it") as error:
        load(path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("content", [b"", b"hello", gzip.compress(b"hello"), gzip.compress(b"x" * 100)])
def test_a_foreign_file_is_refused(tmp_path, content):
    """Text, an empty file, another gzip file: one line, no traceback from the decoder."""
    (tmp_path / "other").write_bytes(content)
    with pytest.raises(ValueError, match="not a Flightdeck recording"):
        load(tmp_path / "other")


@pytest.mark.parametrize("share", [0.3, 0.7, 0.99])
def test_a_truncated_recording_gives_all_whole_records(tmp_path, records, share):
    """The engine was killed while it wrote: what is there can be watched."""
    save(tmp_path / "run.trace", records)
    data = (tmp_path / "run.trace").read_bytes()
    (tmp_path / "cut.trace").write_bytes(data[: int(share * len(data))])
    cut = load(tmp_path / "cut.trace")
    assert cut == records[: len(cut)]
    assert cut or share < 0.5


def test_a_full_disk_is_reported_and_nothing_piles_up(tmp_path, monkeypatch):
    """The thread that writes must not die silently while the queue grows."""
    sink = FileSink(tmp_path / "run.trace")

    def full(data: bytes) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(sink._file, "write", full)
    sink.write(b"x")
    with pytest.raises(OSError, match="no space left"):
        sink.close()
    with pytest.raises(OSError, match="no space left"):
        sink.write(b"y")
