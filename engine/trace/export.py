"""Recordings in formats that other programs read. All take records: of a file, of a sink, or a ``Timeline``."""

import csv
import io
import json
from collections.abc import Iterable
from dataclasses import fields
from typing import Literal

from engine.trace.chrome import to_chrome
from engine.trace.events import Keyframe, Pieces, Record, Run
from engine.trace.tables import request_table, step_table
from engine.trace.timeline import runs_of

__all__ = ["to_chrome", "to_csv", "to_jsonl"]


def to_jsonl(records: Iterable[Record]) -> str:
    """One JSON object per record: seq, t_ns, step, kind and the fields of its event."""
    return "".join(json.dumps(_plain(record), ensure_ascii=False) + "\n" for record in records)


def to_csv(records: Iterable[Record], table: Literal["requests", "steps"] = "requests") -> str:
    """The table of all runs in ``records`` as CSV with a line of column names; empty when there is nothing."""
    make = request_table if table == "requests" else step_table
    lines = [{"run": number} | line for number, run in enumerate(runs_of(records), 1) for line in make(run)]
    if not lines:
        return ""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(lines[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return text.getvalue()


def _plain(record: Record) -> dict:
    event = record.event
    place = {"seq": record.seq, "t_ns": record.t_ns, "step": record.step, "kind": event.KIND.name}
    if isinstance(event, (Run, Keyframe)):
        return place | {"info": json.loads(event.info)}
    if isinstance(event, Pieces):
        return place | {"pieces": _pieces(event)}
    values = {field.name: getattr(event, field.name) for field in fields(event)}
    return place | {name: _text(value) if isinstance(value, bytes) else value for name, value in values.items()}


def _pieces(event: Pieces) -> dict[int, str]:
    pieces, at = {}, 0
    for token, length in zip(event.token_ids, event.lengths):
        pieces[token] = _text(event.data[at : at + length])
        at += length
    return pieces


def _text(data: bytes) -> str:
    # A piece may be part of a character: keep its bytes readable rather than lose them.
    return data.decode(errors="backslashreplace")
