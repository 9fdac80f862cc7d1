"""The reader of a live engine: several tabs, lost records, runs that follow each other."""

import time

from engine.trace.events import Cmd, Keyframe, Op, Run
from engine.trace.reader import TraceReader
from engine.trace.recorder import Recorder
from engine.trace.ring import RingWriter
from tests.trace.trace_script import Script, arrive, one_answer

INFO = b'{"config": {"scheduling": {"pool_blocks": 4}}}'


def test_records_become_runs(tmp_path):
    """The last run is the live one; older ones stay to look at, but not without bound."""
    reader = TraceReader(tmp_path / "ring")
    assert reader.poll() == 0 and reader.live is None
    ring = RingWriter(tmp_path / "ring")
    for data in one_answer([1.0, 2.0]).sink.data:
        ring.write(data)
    assert reader.poll() == len(one_answer([1.0, 2.0]).records)
    assert reader.live.state_at(reader.live.last_seq).totals.finished == 1
    recorder = Recorder([ring])
    for _ in range(20):
        recorder.emit(Run(INFO))
        reader.poll()
    assert len(reader.runs) == 8 and len(reader.live) == 1
    assert reader.live.provenance == "Measured"


def test_a_lapped_reader_asks_once_for_a_keyframe_and_goes_on_from_it(tmp_path):
    """Nobody polled for a while: the page must not show a state that misses records."""
    asked = []
    ring = RingWriter(tmp_path / "ring", 1024)
    reader = TraceReader(tmp_path / "ring", lambda: asked.append(reader.lost))
    recorder = Recorder([ring])
    recorder.emit(Run(INFO))
    reader.poll()
    for _ in range(100):
        recorder.emit(Cmd(Op.NOTE))
    assert reader.poll() == 0 and reader.poll() == 0
    assert asked == [True]
    recorder.emit(Cmd(Op.NOTE))
    empty = b'"step": 7, "waiting": [], "running": [], "requests": [], "free": [1, 2, 3, 4], "refs": {}, "hashed": []'
    rest = b', "head": [-1, 0, 0, 0], "decode_rows": [], "paused": true}'
    recorder.emit(Keyframe(b'{"run": ' + INFO + b", " + empty + rest))
    recorder.emit(arrive(0))
    assert reader.poll() == 2 and not reader.lost
    state = reader.live.state_at(reader.live.last_seq)
    assert (len(reader.runs), state.step.number, state.waiting, state.partial, state.paused) == (2, 7, [0], True, True)


def test_a_keyframe_that_nobody_needed_changes_nothing(tmp_path):
    """One tab's loss must not restart the run of the others."""
    script = Script().at(0, arrive(0))
    script.emit(Keyframe(b"{}"))
    assert script.timeline.state_at(99).waiting == [0]


def test_following_polls_by_itself_until_closed(tmp_path):
    """An unwatched app must not let the ring lap it; closing ends the thread and keeps what was read."""
    ring = RingWriter(tmp_path / "ring")
    reader = TraceReader(tmp_path / "ring")
    thread = reader.follow(interval_s=0.001)
    Recorder([ring]).emit(Run(INFO))
    while reader.live is None:
        time.sleep(0.001)
    reader.close()
    thread.join(timeout=10)
    assert not thread.is_alive() and len(reader.live) == 1 and reader.poll() == 0
