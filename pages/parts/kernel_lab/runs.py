"""Runs of ``bench kernels``: the recorded one of this tree, and the one of this machine, kept between sessions.

The own run lies in ``~/.flightdeck/kernels``, one file for each device and driver: another card, or a new driver, has
not been measured yet.
"""

import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from pages.parts.badge import Provenance
from pages.parts.device_card import cpu_name
from pages.parts.gpu import Card, NoGPU, read_card
from pages.parts.words import t

RECORDED = Path(__file__).resolve().parents[3] / "lessons" / "recordings" / "kernels.json"
NEEDED = {"kernel", "shape", "us", "peers", "max_rel_err"}  # of an entry


@dataclass(frozen=True, slots=True)
class Run:
    """A document of ``bench kernels`` and where it comes from."""

    provenance: Provenance
    document: dict

    @property
    def source(self) -> str:
        """Device, date, driver, versions and commit, as far as they are known."""
        meta = self.document["meta"]
        versions = meta.get("versions", {})
        parts = [meta.get("device", ""), meta.get("date", "")[:10]]
        parts += [t("kernel_lab.driver", version=meta["driver"]) if meta.get("driver") else ""]
        parts += [f"{name} {versions[name]}" for name in ("torch", "triton") if name in versions]
        parts += [meta.get("commit", "")[:7]]
        return " · ".join(part for part in parts if part)

    @property
    def device(self) -> str:
        """What it was measured on."""
        return self.document["meta"].get("device", "")

    @property
    def age(self) -> str:
        """How long ago, in words; empty when the date is not known."""
        try:
            since = datetime.now(UTC) - datetime.fromisoformat(self.document["meta"]["date"])
        except (KeyError, ValueError, TypeError):
            return ""
        minutes = max(0, int(since.total_seconds() // 60))
        if minutes < 60:
            return t("kernel_lab.age_minutes", n=minutes)
        return (
            t("kernel_lab.age_hours", n=minutes // 60)
            if minutes < 2880
            else t("kernel_lab.age_days", n=minutes // 1440)
        )


def recorded() -> Run | None:
    """The recorded run, None when this tree has none that can be read."""
    return _read(RECORDED, "Recorded")


def own() -> Run | None:
    """The run of this machine, None before the first."""
    return _read(own_path(), "Measured")


def own_path() -> Path:
    """Where the run of this device and driver is kept."""
    card = _card()
    name = f"{device_name()} {card.driver if card and card.driver else ''}".strip()
    return Path.home() / ".flightdeck" / "kernels" / f"{re.sub(r'[^A-Za-z0-9.]+', '-', name).strip('-')}.json"


def keep(text: str) -> None:
    """Keep a document of ``bench kernels`` as the run of this machine.

    Raises:
        ValueError: when it is not one.
    """
    _check(json.loads(text))
    path = own_path()
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(".new")
    beside.write_text(text, encoding="utf-8")
    beside.replace(path)


def device_name() -> str:
    """What a run here would measure."""
    card = _card()
    return card.name if card and card.name else cpu_name()


def has_gpu() -> bool:
    """Whether that is a GPU."""
    return _card() is not None


@cache
def _card() -> Card | None:
    try:
        return read_card()
    except NoGPU:
        return None


def _read(path: Path, provenance: Provenance) -> Run | None:
    try:
        document = _load(path, path.stat().st_mtime_ns)
    except (OSError, ValueError):
        return None
    return Run(provenance, document)


@cache
def _load(path: Path, changed_ns: int) -> dict:
    return _check(json.loads(path.read_text(encoding="utf-8")))


def _check(document: dict) -> dict:
    """The document, if it has what the page needs."""
    try:
        measured = document["meta"]["config"]["ceilings"]
        right = min(measured[name] for name in ("copy_bandwidth", "read_bandwidth", "matmul_flops")) > 0
        right = right and all(entry.keys() >= NEEDED and entry["us"] > 0 for entry in document["results"])
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError("not a result of bench kernels") from error
    if not right:
        raise ValueError("not a result of bench kernels")
    return document
