"""The engine loop on a hash model: every token can be foretold from prompt and seed alone."""

import tracemalloc
from collections import defaultdict

import pytest

from engine.answers import Delta
from engine.engine import Engine
from engine.errors import InvalidRequest, RequestRefused
from engine.request import SamplingParams
from engine.trace.events import Cause, Cmd, Op, Refuse, Run, Step, Time
from engine.trace.recorder import ListSink
from engine.trace.timeline import Timeline, split_runs
from tests.engine.conftest import load_tiny
from tests.engine.hash_worker import HashSpec, expected


class Heard(defaultdict):
    """Deltas by request number, and what they add up to."""

    def __init__(self) -> None:
        super().__init__(list)

    def __call__(self, delta: Delta) -> None:
        self[delta.request_id].append(delta)

    def ids(self, request_id: int) -> list[int]:
        return [token for delta in self[request_id] for token in delta.token_ids]

    def text(self, request_id: int) -> str:
        return "".join(delta.text for delta in self[request_id])

    def cause(self, request_id: int) -> str | None:
        """The cause, after checking that exactly the last delta has one (I-01)."""
        causes = [delta.cause for delta in self[request_id]]
        assert causes and causes[-1] and not any(causes[:-1])
        return causes[-1]


def start(sink: ListSink | None = None, spec: HashSpec | None = None, **scheduling: object) -> tuple[Engine, Heard]:
    """A fresh engine and what it says."""
    model, heard = load_tiny(sink, **scheduling), Heard()
    model.worker.spec = spec or model.worker.spec
    return model.new_engine(on_delta=heard), heard


def last_run(sink: ListSink) -> Timeline:
    return split_runs(sink.records)[-1]


@pytest.mark.parametrize("depth", [0, 1, 2])
@pytest.mark.parametrize("batching", ["in-flight", "static", "static-shrinking", "dynamic"])
def test_every_answer_is_the_models(depth: int, batching: str) -> None:
    """Guards rows, positions and results against mix-ups: preemption, batching and steps in flight change no token."""
    sink = ListSink()
    engine, heard = start(sink, steps_in_flight=depth, batching=batching)
    requests = [engine.submit(f"prompt {i} " * 2, SamplingParams(max_tokens=10 + i, seed=i)) for i in range(16)]
    engine.run()
    for i, request in enumerate(requests):
        assert heard.ids(request.id) == request.output_ids == expected(request.prompt_ids, i, 10 + i)
        assert heard.text(request.id) == engine.tokenizer.decode(request.output_ids)
        assert heard.cause(request.id) == "length"
    run = last_run(sink)
    assert run.state_at(run.last_seq).snapshot() == engine.scheduler.snapshot()


def test_I_01_exactly_one_end_and_always_last() -> None:
    """I-01: a stream whose last event carries no final mark leaves its client waiting for ever."""
    tokens = expected(list(b"abcd"), 7, 30)
    end = next(i for i in range(6, 12) if tokens.index(tokens[i]) == i)
    engine, heard = start(spec=HashSpec(eos_ids=frozenset({tokens[end]})))
    base = {"seed": 7, "max_tokens": 30}
    ends = {
        "eos": engine.submit("abcd", SamplingParams(**base)),
        "length": engine.submit("abcd", SamplingParams(**base | {"max_tokens": 5})),
        "stop": engine.submit("abcd", SamplingParams(stop=(bytes(tokens[3:5]).decode(),), **base)),
        "abort": engine.submit("abcd", SamplingParams(ignore_eos=True, **base)),
        "error": engine.submit("abcd", SamplingParams(ignore_eos=True, **base)),
    }
    for _ in range(12):
        engine.step()
    engine.abort(ends["abort"].id)
    engine.abort_all("the device failed", Cause.ERROR)
    assert not engine.has_work
    assert {heard.cause(request.id) for request in ends.values()} == set(ends)
    for cause, request in ends.items():
        assert heard.cause(request.id) == cause
    assert heard.text(ends["stop"].id) == bytes(tokens[:3]).decode()
    assert heard.text(ends["eos"].id) == bytes(tokens[:end]).decode(), "the end-of-sequence token is not text"
    assert heard.ids(ends["eos"].id) == tokens[: end + 1]


@pytest.mark.parametrize("depth", [0, 1, 3])
def test_a_stop_string_found_late_ends_the_answer_where_it_completes(depth: int) -> None:
    """Guards late stops: with steps in flight the row has run on, but what it ran is neither streamed nor counted."""
    sink = ListSink()
    engine, heard = start(sink, steps_in_flight=depth)
    tokens = expected(list(b"abcd"), 7, 60)
    request = engine.submit("abcd", SamplingParams(seed=7, max_tokens=60, stop=(bytes(tokens[20:23]).decode(),)))
    other = engine.submit("wxyz", SamplingParams(seed=1, max_tokens=60))
    engine.run()
    assert heard.cause(request.id) == "stop"
    assert heard.ids(request.id) == tokens[:23] == request.output_ids
    assert heard.text(request.id) == bytes(tokens[:20]).decode()
    assert heard.ids(other.id) == expected(other.prompt_ids, 1, 60)
    run = last_run(sink)
    assert run.state_at(run.last_seq).totals.late == depth


def test_a_forced_length_overrides_every_stop() -> None:
    """Guards fair races: equal work means that neither end of sequence nor a stop string cuts an answer."""
    tokens = expected(list(b"abcd"), 7, 8)
    engine, heard = start(spec=HashSpec(eos_ids=frozenset(tokens)))
    params = SamplingParams(seed=7, max_tokens=20, forced_output_length=8, stop=(chr(tokens[0]),), ignore_eos=True)
    request = engine.submit("abcd", params)
    engine.run()
    assert heard.ids(request.id) == tokens and heard.cause(request.id) == "length"


def test_B_06_abort_is_idempotent() -> None:
    """B-06: two clean-up paths used to remove the same id, and a KeyError ended the loop."""
    engine, heard = start()
    first = engine.submit("abc", SamplingParams(max_tokens=50), name="first")
    engine.step()
    assert engine.abort("first") and not engine.abort("first") and not engine.abort(first.id)
    assert not engine.abort("unknown") and not engine.abort(12345)
    second = engine.submit("abc", SamplingParams(max_tokens=3, seed=2))
    engine.run()
    assert not engine.abort(second.id)
    assert heard.ids(second.id) == expected(list(b"abc"), 2, 3)
    assert engine.scheduler.kv.pool.available == 64


def test_B_07_a_reused_name_never_mixes_two_requests() -> None:
    """B-07: several maps keyed by a caller's id let a late abort hit its next owner."""
    engine, heard = start(steps_in_flight=1)
    old = engine.submit("abc", SamplingParams(max_tokens=50, seed=1), name="r")
    engine.step()
    with pytest.raises(InvalidRequest, match="'r'"):
        engine.submit("abc", SamplingParams(), name="r")
    assert engine.abort("r")
    new = engine.submit("xyz", SamplingParams(max_tokens=9, seed=2), name="r")
    engine.abort(old.id)
    engine.run()
    assert heard.ids(new.id) == expected(list(b"xyz"), 2, 9) and heard.cause(new.id) == "length"


def test_B_08_a_second_batch_is_like_the_first() -> None:
    """B-08: the second batch on one engine lost its results, and the first had changed the configuration."""
    engine, heard = start()
    config = engine.config
    for _ in range(2):
        requests = [engine.submit("abc", SamplingParams(max_tokens=4, seed=i)) for i in range(3)]
        engine.run()
        assert [heard.ids(request.id) for request in requests] == [expected(list(b"abc"), i, 4) for i in range(3)]
    assert engine.config == config


def test_B_10_a_prompt_longer_than_the_context_is_refused_with_both_numbers() -> None:
    """B-10: no length check at the front door, so the worker crashed."""
    engine, heard = start(max_model_len=32)
    with pytest.raises(InvalidRequest, match=r"at most 31 tokens .*32.*'32 tokens'"):
        engine.submit("p" * 32, SamplingParams(max_tokens=4))
    edge = engine.submit("p" * 31, SamplingParams(max_tokens=10))
    last = engine.submit("p" * 4, SamplingParams(max_tokens=2))
    engine.run()
    assert (len(heard.ids(edge.id)), heard.cause(edge.id)) == (1, "length")
    assert (len(heard.ids(last.id)), heard.cause(last.id)) == (2, "length")


@pytest.mark.parametrize("prompt", [[], [256], [-1], "", ["a"], [True, 2.5]])
def test_B_11_bad_prompts_cost_nothing(prompt: list | str) -> None:
    """B-11: an empty prompt or an id out of range reached the embedding and took the engine down."""
    engine, heard = start()
    with pytest.raises(InvalidRequest, match="prompt"):
        engine.submit(prompt, SamplingParams())
    fine = engine.submit("abc", SamplingParams(max_tokens=2))
    engine.run()
    assert len(heard.ids(fine.id)) == 2 and engine.scheduler.kv.pool.available == 64


def test_B_12_max_tokens_may_be_left_out() -> None:
    """B-12: None reached arithmetic. It means what context and pool leave; nonsense is named."""
    engine, heard = start(max_model_len=16)
    request = engine.submit("abcdef", SamplingParams(ignore_eos=True))
    engine.run()
    assert len(heard.ids(request.id)) == 10
    for nonsense in (0, -1):
        with pytest.raises(InvalidRequest, match="max_tokens"):
            engine.submit("abcdef", SamplingParams(max_tokens=nonsense))


def test_F_05_one_token_requests_leave_nothing_behind() -> None:
    """F-05: requests of one output token leaked, because a reused list was never reset."""
    engine = load_tiny().new_engine(on_delta=lambda delta: None)

    def sizes() -> dict[str, int]:
        owners = (engine, engine.answers, engine.scheduler, engine.scheduler.roster, engine.worker)
        return {
            f"{type(owner).__name__}.{name}": len(value)
            for owner in owners
            for name, value in vars(owner).items()
            if hasattr(value, "__len__") and not isinstance(value, str)
        }

    def serve(count: int) -> dict[str, int]:
        for _ in range(count):
            engine.submit("abc", SamplingParams(max_tokens=1))
            engine.run()
        return sizes()

    few = serve(10)
    tracemalloc.start()
    many = serve(990)
    grown, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert many == few and grown < 2**20


def test_a_request_that_never_fits_is_refused_and_recorded() -> None:
    """Guards liveness: what no preemption can make room for must not wait in the queue for ever."""
    sink = ListSink()
    engine, _ = start(sink, pool_blocks=8)
    with pytest.raises(RequestRefused) as refused:
        engine.submit("p" * 20, SamplingParams(max_tokens=60))
    assert (refused.value.reason, refused.value.need, refused.value.have) == ("never_fits", 20, 8)
    events = [record.event for record in sink.records if isinstance(record.event, Refuse)]
    assert [(event.need, event.have) for event in events] == [(20, 8)]
    assert not engine.has_work


def test_the_clock_stands_still_while_paused() -> None:
    """Guards latencies: time in which somebody looked at a paused engine is nobody's waiting time."""
    engine, heard = start(steps_in_flight=1)
    request = engine.submit("abc", SamplingParams(max_tokens=30, seed=3))
    for _ in range(4):
        engine.step()
    engine.pause()
    engine.pause("exclusive")
    assert engine.scheduler.steps_in_flight == 0, "pause drains"
    stopped_at, so_far = engine.clock(), len(heard.ids(request.id))
    late = engine.submit("later", SamplingParams(max_tokens=3))
    assert engine.clock() == stopped_at == late.arrived_ns
    assert engine.single_steps(2) == 2
    assert len(heard.ids(request.id)) == so_far + 2 and engine.clock() > stopped_at
    stopped_at = engine.clock()
    engine.resume()
    assert engine.paused and engine.clock() == stopped_at, "another holder keeps it paused"
    engine.resume("exclusive")
    engine.resume("exclusive")
    engine.run()
    assert heard.ids(request.id) == expected(list(b"abc"), 3, 30) and heard.cause(late.id) == "length"


def test_the_trace_says_what_was_done() -> None:
    """Guards the record: a run starts with its facts, each step has its times, each command is there."""
    sink = ListSink()
    engine, _ = start(sink)
    engine.submit("abc", SamplingParams(max_tokens=3))
    engine.pause()
    engine.single_steps(1)
    engine.resume()
    engine.run()
    events = [record.event for record in sink.records]
    info = events[0].data
    assert isinstance(events[0], Run) and info["config"]["scheduling"]["pool_blocks"] == 64
    assert {"device", "driver", "versions", "commit", "seed", "model", "pool", "memory_map", "classroom"} <= info.keys()
    steps = [record.step for record in sink.records if isinstance(record.event, Step)]
    assert steps == [1, 2, 3] == [event.of_step for event in events if isinstance(event, Time)]
    commands = [Op(event.op) for event in events if isinstance(event, Cmd)]
    assert commands == [Op.PAUSE, Op.STEP, Op.RESUME]


@pytest.mark.parametrize("policy", [{"aging_s": 1e-4}, {"queue_order": "deadline"}, {"eviction": "priority"}])
def test_order_by_time_and_priority_is_the_same_in_the_trace(policy: dict) -> None:
    """Guards against a clock that is read twice: requests that come microseconds apart would be ordered by one time in
    the engine and by another in the trace. A keyframe has all that the order depends on."""
    sink = ListSink()
    engine, _ = start(sink, pool_blocks=16, max_num_seqs=2, **policy)
    for i in range(60):
        engine.submit(f"prompt {i % 7}", SamplingParams(max_tokens=6), priority=i * 7 % 5)
        if i % 20 == 19:
            engine.step()
            engine.drain()
    begin = engine.recorder.seq
    engine.write_keyframe()
    for _ in range(20):
        engine.step()
    late = split_runs(record for record in sink.records if record.seq >= begin)[-1]
    for run in (late, last_run(sink)):
        assert run.state_at(run.last_seq).snapshot() == engine.scheduler.snapshot()


def test_a_keyframe_is_a_new_beginning() -> None:
    """Guards readers that lost records: folding from a keyframe arrives where folding from the start does."""
    sink = ListSink()
    engine, _ = start(sink, pool_blocks=20)
    for i in range(8):
        engine.submit(f"prompt {i}", SamplingParams(max_tokens=40))
    for _ in range(25):
        engine.step()
    begin = engine.recorder.seq
    engine.write_keyframe()
    for _ in range(10):
        engine.step()
    whole = last_run(sink)
    late = split_runs(record for record in sink.records if record.seq >= begin)[-1]
    assert late.state_at(late.last_seq).snapshot() == whole.state_at(whole.last_seq).snapshot()
    assert late.state_at(late.last_seq).snapshot() == engine.scheduler.snapshot()
