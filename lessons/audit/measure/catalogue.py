"""Which measurements there are, what they need, and how to run one by name."""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from engine.workload.drive import Progress


@dataclass(frozen=True, slots=True)
class Measurement:
    """``place`` is ``module:function`` below ``lessons.audit.measure``; ``cuda``: only a GPU can run it."""

    place: str
    cuda: bool = False


ALL: Mapping[str, Measurement] = {
    "race": Measurement("races:mixed"),
    "equal": Measurement("races:equal"),
    "pressure": Measurement("pools:pressure"),
    "prefix": Measurement("pools:prefix"),
    "blocks": Measurement("pools:block_sizes"),
    "chunks": Measurement("steps:chunks"),
    "steps": Measurement("steps:sweep"),
    "sampling": Measurement("model:sampling"),
    "start": Measurement("model:start"),
    "weights": Measurement("model:weights"),
    "keys": Measurement("model:keys"),
    "host": Measurement("model:host"),
    "copies": Measurement("device:copies", cuda=True),
    "graphs": Measurement("device:graphs", cuda=True),
    "utilisation": Measurement("device:utilisation", cuda=True),
    "formats": Measurement("device:formats", cuda=True),
}


def measure(name: str, device: str, progress: Progress) -> dict:
    """Run a measurement on ``device`` ("cpu" or "cuda"): ``{"meta": device, date, versions, commit; "results"}``.

    Raises:
        ValueError: an unknown name, or a measurement that needs a GPU on a machine without one.
    """
    from engine.provenance import device_name, provenance

    if name not in ALL:
        raise ValueError(f"measurement: one of {', '.join(ALL)}; got {name!r}")
    if ALL[name].cuda and device == "cpu":
        raise ValueError(f"measurement {name}: needs a CUDA device")
    module, _, function = ALL[name].place.partition(":")
    work = getattr(importlib.import_module(f"lessons.audit.measure.{module}"), function)
    results = work(device, progress)
    date = datetime.now(UTC).isoformat(timespec="seconds")
    return {"meta": {"device": device_name(device), "date": date} | provenance(), "results": results}
