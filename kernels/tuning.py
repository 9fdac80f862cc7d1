"""Tiles that were measured on this machine once and are kept on disk for every later run.

A choice belongs to a GPU, a Triton version, a kernel and a bucket of shapes: a new card or compiler starts afresh.
Looking one up (``chosen``) never measures anything, so a live run cannot stall on it. Measuring (``choose``) is for
whoever asks for it before a run, on inputs of its own: a kernel that works in place spoils nobody's data.

    {"NVIDIA H200, triton 3.6.0": {"product": {"4096 x 1024, 16 rows": [16, 32, 128]}}}
"""

import json
import logging
import os
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

import torch

from kernels.backend import triton

log = logging.getLogger(__name__)
Tile = TypeVar("Tile", bound=tuple[int, ...])
Kept = dict[str, dict[str, dict[str, list[int]]]]  # machine -> kernel -> key -> tile


def tiles_file() -> Path:
    """Where choices are kept: ``flightdeck/tiles.json`` in the user's cache directory."""
    root = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (root if root.is_absolute() else Path.home() / ".cache") / "flightdeck" / "tiles.json"


def chosen(kernel: str, key: str, candidates: Sequence[Tile], device: torch.device) -> Tile | None:
    """The kept choice among ``candidates``; None when nothing was kept, or another version offered other tiles."""
    kept = _load(tiles_file()).get(machine(device), {}).get(kernel, {}).get(key)
    return next((tile for tile in candidates if list(tile) == kept), None)


def choose(
    kernel: str, key: str, candidates: Sequence[Tile], measure: Callable[[Tile], float], device: torch.device
) -> Tile:
    """The kept choice, or else the candidate with the smallest ``measure`` (seconds, any unit), which is then kept."""
    tile = chosen(kernel, key, candidates, device)
    if tile is None:
        tile = min(candidates, key=measure)
        _keep(kernel, key, tile, device)
    return tile


@lru_cache
def machine(device: torch.device) -> str:
    """The GPU and the compiler that a choice belongs to."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
    return f"{name}, triton {triton.__version__ if triton else 'none'}"


@lru_cache
def _load(path: Path) -> Kept:
    """All that is kept, read once. A file that cannot be understood counts as empty; the next choice replaces it."""
    try:
        kept = json.loads(path.read_text())
        return {m: {k: dict(tiles) for k, tiles in kernels.items()} for m, kernels in kept.items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, AttributeError, TypeError) as error:
        log.warning("%s: not understood, tiles are chosen by rule (%s)", path, error)
        return {}


def _keep(kernel: str, key: str, tile: Sequence[int], device: torch.device) -> None:
    """Add a choice to the file, replaced as a whole so that no reader sees half of it. A full disk costs the memory."""
    path = tiles_file()
    kept = _load(path)
    kept.setdefault(machine(device), {}).setdefault(kernel, {})[key] = list(tile)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f"{path.name}.{os.getpid()}")
        part.write_text(json.dumps(kept, indent=1))
        part.replace(path)
    except OSError as error:
        log.warning("%s: cannot be written, the choice lasts for this process (%s)", path, error)
