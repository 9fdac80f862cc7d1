"""Where the Arena's numbers come from: the recorded race of this tree, and the device that a race would run on."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from engine.trace.checks import Check
from engine.trace.files import load
from engine.trace.timeline import split_runs
from engine.workload.recorded import recorded_race
from pages.parts.arena.checking import checked
from pages.parts.gpu import NoGPU, read_card
from pages.parts.session import session
from pages.parts.words import t

RECORDINGS = Path(__file__).resolve().parents[3] / "lessons" / "recordings"
NAME = "race.fdtrace"


@dataclass(frozen=True, slots=True)
class Recorded:
    """A race from a file: results as ``race`` gives them, and the facts of its RUN record."""

    name: str
    results: dict
    info: dict


def recorded() -> Recorded | str:
    """The recorded race, or in words why there is none."""
    path = RECORDINGS / NAME
    if not path.exists():
        return t("arena.empty")
    try:
        return _load(path, path.stat().st_mtime_ns)
    except ValueError as error:
        return t("arena.recorded_bad", why=str(error))


@cache
def _load(path: Path, changed_ns: int) -> Recorded:
    results, info = recorded_race(path)
    return Recorded(f"{path.name}-{changed_ns}", results, info)


@cache
def recorded_checks(name: str) -> dict[str, list[Check]]:
    """The self-checks of the recorded race ``name`` (which tells one version of the file from another)."""
    return checked(split_runs(load(RECORDINGS / NAME)))


def source_words(info: dict) -> str:
    """Device, model, date, versions and commit of a run, as far as they are known."""
    versions = info.get("versions", {})
    parts = [info.get("device", ""), Path(str(info.get("model", ""))).name, info.get("date", "")[:10]]
    parts += [f"torch {versions['torch']}" if "torch" in versions else "", info.get("commit", "")[:7]]
    return " · ".join(part for part in parts if part)


def device_word() -> str:
    """GPU or CPU: what the engine runs on, or would."""
    return "GPU" if session().config.worker.device.startswith(("auto", "cuda")) and _has_gpu() else "CPU"


@cache
def _has_gpu() -> bool:
    try:
        read_card()
    except NoGPU:
        return False
    return True
