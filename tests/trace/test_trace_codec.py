"""The binary form of records."""

from dataclasses import fields
from typing import get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.trace.codec import HEAD, decode, encode
from engine.trace.events import EVENT_TYPES, Apply, Kind, Record, Step

_RANGES = {"i": (-(2**31), 2**31 - 1), "q": (-(2**63), 2**63 - 1), "Q": (0, 2**64 - 1), "H": (0, 2**16 - 1)}


def _values(code: str) -> st.SearchStrategy:
    if code == "B*":
        return st.binary(max_size=300)
    if code.endswith("*"):
        return st.lists(st.integers(*_RANGES[code[0]]), max_size=300)
    return st.floats(width=32, allow_nan=False) if code == "f" else st.integers(*_RANGES[code])


def _events(event_type: type) -> st.SearchStrategy:
    hints = get_type_hints(event_type, include_extras=True)
    codes = {field.name: hints[field.name].__metadata__[0] for field in fields(event_type)}
    return st.builds(event_type, **{name: _values(code) for name, code in codes.items()})


def _records() -> st.SearchStrategy:
    event = st.one_of([_events(event_type) for event_type in EVENT_TYPES])
    return st.builds(Record, st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1), st.integers(0, 2**32 - 1), event)


@given(st.lists(_records(), max_size=5))
def test_round_trip(records):
    """A field that loses its value, its order or its end: every kind, every extreme, several in one buffer."""
    data = memoryview(b"".join(encode(record) for record in records))
    offset, back = 0, []
    while offset < len(data):
        record, offset = decode(data, offset)
        back.append(record)
    assert back == records
    assert offset == len(data)


def test_every_kind_has_one_event_type():
    """A kind without a codec would be written and never read."""
    assert [event_type.KIND for event_type in EVENT_TYPES] == list(Kind)


def test_a_steady_step_is_small():
    """The trace of 256 steady rows must stay near 200 bytes a step, 1.7 KB with the token ids (design: Trace)."""
    steady = Record(1, 2, 3, Step(8192, 256, 10, 20, 0, 256))
    results = Record(1, 2, 3, Apply(3, list(range(256)), list(range(256))))
    assert len(encode(steady)) < 200
    assert len(encode(results)) < 1_700


def test_an_unknown_kind_is_an_error():
    """A record of a newer version must not be read as something else."""
    with pytest.raises(ValueError, match="unknown record kind 99"):
        decode(memoryview(HEAD.pack(0, 0, 0, 99, 0, 0, 0)))
