"""Runs of the benches that the page shows: the recorded one of this tree, and the one of this machine, kept.

The own runs lie in ``$XDG_DATA_HOME/flightdeck`` (``~/.local/share/flightdeck``), one file for each bench, device and
driver: another card, or a new driver, has not been measured yet.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from lessons.kit.places import data_folder, write_whole
from pages.parts.badge import Provenance
from pages.parts.device_card import cpu_name
from pages.parts.gpu import Card, NoGPU, read_card
from pages.parts.words import t

RECORDINGS = Path(__file__).resolve().parents[3] / "lessons" / "recordings"
NEEDED = {"kernel", "shape", "us", "peers", "max_rel_err"}  # of an entry of bench kernels
STAGE = {"stage", "output_throughput", "agreed", "kl", "times_before", "times_first"}  # of bench stages
LOSSES = {"limit", "floor_s", "wall_s", "output_throughput", "lines"}  # of bench throughput
MACHINE = {"copy_bandwidth", "read_bandwidth", "matmul_flops", "launch_eager_s", "launch_graph_s"}


@dataclass(frozen=True, slots=True)
class Run:
    """A document of a bench and where it comes from."""

    provenance: Provenance
    document: dict

    @property
    def source(self) -> str:
        """Device, model, date, driver, versions and commit, as far as known; the commit of rows measured later."""
        meta = self.document["meta"]
        versions = meta.get("versions", {})
        parts = [meta.get("device", ""), self._model, meta.get("date", "")[:10]]
        parts += [t("kernel_lab.driver", version=meta["driver"]) if meta.get("driver") else ""]
        parts += [f"{name} {versions[name]}" for name in ("torch", "triton") if name in versions]
        parts += [meta.get("commit", "")[:7], meta.get("remeasured", "")]
        return " · ".join(part for part in parts if part)

    @property
    def _model(self) -> str:
        worker = self.document["meta"].get("config", {}).get("worker", {})
        return worker.get("random_weights") or Path(worker.get("model", "")).name

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


@dataclass(frozen=True, slots=True)
class Shelf:
    """Where the documents of one bench are. ``right``: whether one has what the page needs (it may raise)."""

    name: str
    right: Callable[[dict], bool]

    def recorded(self) -> Run | None:
        """The recorded run, None when this tree has none that can be read."""
        return self._read(RECORDINGS / f"{self.name}.json", "Recorded")

    def own(self) -> Run | None:
        """The run of this machine, None before the first."""
        return self._read(self.own_path(), "Measured")

    def own_path(self) -> Path:
        """Where the run of this device and driver is kept."""
        card = _card()
        name = f"{device_name()} {card.driver if card and card.driver else ''}".strip()
        return data_folder() / self.name / f"{re.sub(r'[^A-Za-z0-9.]+', '-', name).strip('-')}.json"

    def keep(self, text: str) -> None:
        """Keep a document as the run of this machine.

        Raises:
            ValueError: when it is none of this bench.
        """
        self.checked(json.loads(text))
        write_whole(self.own_path(), text.encode())

    def checked(self, document: dict) -> dict:
        """The document. Raises ``ValueError`` when it lacks what the page needs."""
        try:
            right = isinstance(document["meta"], dict) and self.right(document)
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"not a result of bench {self.name}") from error
        if not right:
            raise ValueError(f"not a result of bench {self.name}")
        return document

    def _read(self, path: Path, provenance: Provenance) -> Run | None:
        try:
            return Run(provenance, _load(self, path, path.stat().st_mtime_ns))
        except (OSError, ValueError):
            return None


def _right_kernels(document: dict) -> bool:
    measured = document["meta"]["config"]["ceilings"]
    ceilings = min(measured[name] for name in ("copy_bandwidth", "read_bandwidth", "matmul_flops")) > 0
    return ceilings and all(entry.keys() >= NEEDED and entry["us"] > 0 for entry in document["results"])


def _right_stages(document: dict) -> bool:
    entries = document["results"]
    return len(entries) > 1 and all(each.keys() >= STAGE and each["output_throughput"] > 0 for each in entries)


def _right_throughput(document: dict) -> bool:
    lost = document["results"]["waterfall"]
    return lost.keys() >= LOSSES and lost["limit"] > 0 and lost["wall_s"] > 0


def _right_machine(document: dict) -> bool:
    found = document["results"]
    return found.keys() >= MACHINE and bool(found["matmul_flops"]) and min(found["matmul_flops"].values()) > 0


KERNELS = Shelf("kernels", _right_kernels)
STAGES = Shelf("stages", _right_stages)
THROUGHPUT = Shelf("throughput", _right_throughput)
MACHINES = Shelf("machine", _right_machine)


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


@cache
def _load(shelf: Shelf, path: Path, changed_ns: int) -> dict:
    return shelf.checked(json.loads(path.read_text(encoding="utf-8")))
