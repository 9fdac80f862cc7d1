"""The recorder: places, failures, text pieces."""

from engine.trace.events import Apply, Cmd, Keyframe, Op, Pieces, Run
from engine.trace.recorder import ListSink, Recorder
from tests.trace.trace_script import Script, arrive, step


def test_records_are_stamped_with_seq_time_and_step():
    """Every record knows the step it belongs to; a new run counts its steps from one."""
    script = Script().at(1.0, arrive(0), step()).at(2.0, Apply(1), step(), Run(b"{}"), step())
    assert [(r.seq, r.t_ns, r.step) for r in script.records] == [
        (0, 0, 0),
        (1, 1_000_000_000, 0),
        (2, 1_000_000_000, 1),
        (3, 2_000_000_000, 1),
        (4, 2_000_000_000, 2),
        (5, 2_000_000_000, 0),
        (6, 2_000_000_000, 1),
    ]


def test_a_failing_sink_is_counted_and_never_raised(caplog):
    """A full disk must not stop the step loop; it is logged once, and the hole shows in the seqs."""

    class Full:
        def write(self, data: bytes) -> None:
            raise OSError("no space left")

    recorder = Recorder([Full()])
    for _ in range(3):
        recorder.emit(Cmd(Op.NOTE))
    assert recorder.failures == 3
    assert len(caplog.records) == 1


def test_a_bad_event_leaves_a_hole_in_the_seqs():
    """A value that does not fit its field: the trace is not complete any more, and a reader must be able to tell."""
    sink = ListSink()
    recorder = Recorder([sink])
    recorder.emit(Cmd(Op.NOTE))
    recorder.emit(Cmd(2**40))
    recorder.emit(Cmd(Op.NOTE))
    assert [record.seq for record in sink.records] == [0, 2]
    assert recorder.failures == 1


def test_a_piece_is_written_once_in_a_run():
    """Text comes the first time an id appears, and again for a reader that begins at a later RUN or KEYFRAME."""
    sink = ListSink()
    recorder = Recorder([sink], piece_bytes=lambda token: b"x" * token)
    recorder.emit_pieces([2, 1, 2])
    recorder.emit_pieces([1, 3])
    recorder.emit_pieces([3])
    recorder.emit(Keyframe(b"{}"))
    recorder.emit_pieces([3])
    pieces = [record.event for record in sink.records if isinstance(record.event, Pieces)]
    assert pieces == [Pieces([1, 2], [1, 2], b"xxx"), Pieces([3], [3], b"xxx"), Pieces([3], [3], b"xxx")]


def test_a_failing_tokenizer_is_counted():
    """Text that cannot be found does not stop the loop either."""
    recorder = Recorder([ListSink()], piece_bytes=lambda token: {}[token])
    recorder.emit_pieces([1])
    assert recorder.failures == 1


def test_an_event_may_be_changed_after_it_was_emitted():
    """The scheduler reuses its lists: what was recorded must not change with them."""
    sink, rows = ListSink(), [1, 2]
    Recorder([sink]).emit(Apply(1, rows, [5, 6]))
    rows.clear()
    assert sink.records[0].event.rows == [1, 2]
