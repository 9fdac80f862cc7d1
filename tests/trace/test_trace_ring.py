"""The shared ring: nothing torn, nothing silently missing."""

import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.trace.codec import encode
from engine.trace.events import Cmd, Keyframe, Op, Record, Run
from engine.trace.ring import RingReader, RingWriter


def _note(seq: int, size: int) -> Record:
    return Record(seq, seq, 0, Cmd(Op.NOTE, seq, bytes([seq % 251]) * size))


def _run(seq: int) -> Record:
    return Record(seq, seq, 0, Run(b"{}"))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 90), st.booleans()), max_size=80), st.integers(256, 600))
def test_a_reader_gets_all_records_or_knows_of_the_gap(tmp_path_factory, writes, capacity):
    """Wrap-around at any offset, with a reader that is sometimes lapped: what it returns has no hole inside.

    After a gap it returns nothing until a new beginning (here: every tenth record is a RUN).
    """
    path = tmp_path_factory.mktemp("ring") / "ring"
    writer, reader = RingWriter(path, capacity), RingReader(path)
    expected, unread, gap = 0, 0, False
    for seq, (size, read) in enumerate(writes):
        record = _run(seq) if seq % 10 == 0 else _note(seq, size)
        writer.write(encode(record))
        unread += len(encode(record))
        if not read:
            continue
        gap |= unread > capacity
        unread = 0
        for got in reader.read():
            assert got.seq == expected or (gap and isinstance(got.event, Run))
            assert not isinstance(got.event, Cmd) or got == _note(got.seq, len(got.event.note))
            gap, expected = False, got.seq + 1
        assert reader.lost == gap
    writer.close()
    reader.close()


def test_a_late_reader_gets_everything_that_is_still_there(tmp_path):
    """The app opens the ring after the engine began to write."""
    writer = RingWriter(tmp_path / "ring", 4096)
    for seq in range(20):
        writer.write(encode(_note(seq, 10)))
    assert [record.seq for record in RingReader(tmp_path / "ring").read()] == list(range(20))


def test_after_a_gap_a_keyframe_is_a_new_beginning(tmp_path):
    """Records that follow a gap cannot be folded: they are withheld until a KEYFRAME."""
    writer, reader = RingWriter(tmp_path / "ring", 512), RingReader(tmp_path / "ring")
    for seq in range(40):
        writer.write(encode(_note(seq, 40)))
    assert reader.read() == [] and reader.lost and reader.gaps == 1
    writer.write(encode(_note(40, 1)))
    assert reader.read() == [] and reader.lost
    for record in (_note(41, 1), Record(42, 0, 0, Keyframe(b"{}")), _note(43, 1)):
        writer.write(encode(record))
    assert [record.seq for record in reader.read()] == [42, 43]
    assert not reader.lost


def test_a_reader_beside_a_busy_writer_sees_no_torn_record(tmp_path):
    """The copy races with the writer: a record that was overwritten meanwhile must not come out."""
    writer, reader = RingWriter(tmp_path / "ring", 4096), RingReader(tmp_path / "ring")

    def write() -> None:
        for seq in range(20_000):
            writer.write(encode(_run(seq) if seq % 50 == 0 else _note(seq, seq % 90)))

    thread = threading.Thread(target=write)
    thread.start()
    seqs = []
    while thread.is_alive():
        for record in reader.read():
            assert isinstance(record.event, Run) or record == _note(record.seq, record.seq % 90)
            seqs.append(record.seq)
    thread.join()
    assert seqs == sorted(set(seqs))


def test_too_large_a_record_is_an_error(tmp_path):
    """It would overwrite itself."""
    with pytest.raises(ValueError, match="exceeds the ring"):
        RingWriter(tmp_path / "ring", 256).write(bytes(300))


def test_a_foreign_file_is_not_a_ring(tmp_path):
    """Any other file is refused instead of being read as offsets."""
    (tmp_path / "other").write_bytes(bytes(8192))
    with pytest.raises(ValueError, match="not a Flightdeck ring"):
        RingReader(tmp_path / "other")
