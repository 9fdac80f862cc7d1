"""Where a learner's own files are: below ``$XDG_DATA_HOME/flightdeck`` (``~/.local/share/flightdeck``)."""

import os
from pathlib import Path


def data_folder() -> Path:
    """The folder; it may not exist yet."""
    home = os.environ.get("XDG_DATA_HOME", "")
    base = Path(home) if os.path.isabs(home) else Path.home() / ".local" / "share"
    return base / "flightdeck"


def write_whole(path: Path, data: bytes) -> None:
    """Write a file so that a reader sees the old one or the new one, never half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.write_bytes(data)
    beside.replace(path)
