"""Measured documents on disk: one file per device in the user's data folder, and the recording of this tree.

A file is ``{"schema": 1, "measurements": {name: {"meta": ..., "results": ...}}}``; the newest of a name stays.
"""

import json
import os
import re
import threading
from functools import cache
from pathlib import Path

from lessons.audit.measure.catalogue import ALL
from lessons.audit.registry import Source

SCHEMA = 1
RECORDED = Path(__file__).resolve().parents[1] / "recordings" / "claims.json"
_writing = threading.Lock()


def own_path(device: str) -> Path:
    """Where the documents of ``device`` (as it calls itself) are kept. ``XDG_DATA_HOME`` is respected."""
    base = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    slug = re.sub(r"[^A-Za-z0-9.]+", "-", device).strip("-")
    return Path(base) / "flightdeck" / "claims" / f"{slug or 'device'}.json"


def keep(path: Path, name: str, text: str) -> None:
    """Keep the document of a measurement.

    Raises:
        ValueError: when ``text`` is not one.
    """
    document = _checked(json.loads(text))
    with _writing:
        known = _documents(path) | {name: document}
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_suffix(".new")
        beside.write_text(file_text(known), encoding="utf-8")
        beside.replace(path)


def file_text(documents: dict[str, dict]) -> str:
    """The text of a file with these documents."""
    return json.dumps({"schema": SCHEMA, "measurements": documents}, allow_nan=False)


def sources(path: Path, provenance: str) -> dict[str, Source]:
    """What the file at ``path`` holds, by name; nothing when there is none, or none that can be read."""
    return {name: source(document, provenance) for name, document in _documents(path).items() if name in ALL}


def source(document: dict, provenance: str) -> Source:
    """A document of ``measure`` as a source."""
    meta = document["meta"]
    parts = (meta.get("device", ""), meta.get("date", "")[:10], meta.get("commit", "")[:7])
    return Source(document["results"], provenance, " · ".join(part for part in parts if part))


def _documents(path: Path) -> dict[str, dict]:
    try:
        return _read(path, path.stat().st_mtime_ns)
    except (OSError, ValueError, AttributeError, TypeError, KeyError):  # none, half written, or something else
        return {}


@cache
def _read(path: Path, changed_ns: int) -> dict[str, dict]:
    found = json.loads(path.read_text(encoding="utf-8"))
    if found["schema"] != SCHEMA:
        raise ValueError(f"{path.name} was written by another version")
    return {name: _checked(document) for name, document in found["measurements"].items()}


def _checked(document: dict) -> dict:
    if not isinstance(document, dict) or not {"meta", "results"} <= document.keys():
        raise ValueError("not a document of a measurement")
    return document
