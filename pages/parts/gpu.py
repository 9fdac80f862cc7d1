"""The device card: what NVML says about the GPU that the engine uses. A field that the driver does not offer is None.

NVML counts all GPUs and ignores ``CUDA_VISIBLE_DEVICES``; the card is found by UUID, or by the position that the
variable names (in PCI order, as NVML counts).
"""

import importlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import ModuleType

MIB = 2**20


@dataclass(frozen=True, slots=True)
class Card:
    """One GPU now. None: this driver or GPU does not offer the value.

    Memory in MiB, utilisation and fan in percent, power in watts, temperature in degrees Celsius, clock in MHz.
    """

    name: str | None = None
    uuid: str | None = None
    memory_used: float | None = None
    memory_total: float | None = None
    utilisation: int | None = None
    memory_utilisation: int | None = None
    power: float | None = None
    power_limit: float | None = None
    temperature: int | None = None
    fan: int | None = None
    clock: int | None = None
    driver: str | None = None
    shared_with: int | None = None  # other processes that compute on it


class NoGPU(Exception):
    """There is no card to show; the message says why in one line."""


def read_card(uuid: str | None = None, environ: Mapping[str, str] = os.environ, load: Callable | None = None) -> Card:
    """The card that the engine uses.

    Args:
        uuid: of the engine's device when it is known.
        environ: where ``CUDA_VISIBLE_DEVICES`` stands.
        load: imports NVML (a test passes a fake).

    Raises:
        NoGPU: no package, no driver, or no GPU is visible. Asking again later may work.
    """
    nvml = _nvml(load or importlib.import_module)
    return _fields(nvml, _handle(nvml, uuid, environ))


def _nvml(load: Callable[[str], ModuleType]) -> ModuleType:
    try:
        nvml = load("pynvml")
    except ImportError as error:
        raise NoGPU("the package nvidia-ml-py is not installed") from error
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        raise NoGPU(str(error)) from error
    return nvml


def _handle(nvml: ModuleType, uuid: str | None, environ: Mapping[str, str]) -> object:
    wanted = uuid if uuid is not None else environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0].strip()
    if wanted in ("", "-1", "NoDevFiles"):
        raise NoGPU("no GPU visible (CUDA_VISIBLE_DEVICES hides them)")
    try:
        if wanted.isdigit():
            return nvml.nvmlDeviceGetHandleByIndex(int(wanted))
        return nvml.nvmlDeviceGetHandleByUUID(_whole_uuid(nvml, wanted))
    except nvml.NVMLError as error:
        raise NoGPU(f"no GPU visible as {wanted!r}: {error}") from error


def _whole_uuid(nvml: ModuleType, wanted: str) -> str:
    """The UUID that starts with ``wanted``: the variable may hold a shortened one, and torch leaves out ``GPU-``."""
    for index in range(nvml.nvmlDeviceGetCount()):
        uuid = _text(nvml.nvmlDeviceGetUUID(nvml.nvmlDeviceGetHandleByIndex(index)))
        if uuid.startswith(wanted) or uuid.removeprefix("GPU-") == wanted:
            return uuid
    return wanted  # of a MIG slice, which the count does not reach


def _fields(nvml: ModuleType, handle: object) -> Card:
    def ask(name: str, *arguments: object) -> object:
        try:
            return getattr(nvml, name)(handle, *arguments)
        except (nvml.NVMLError, AttributeError):
            return None

    memory, rates = ask("nvmlDeviceGetMemoryInfo"), ask("nvmlDeviceGetUtilizationRates")
    return Card(
        name=_text(ask("nvmlDeviceGetName")),
        uuid=_text(ask("nvmlDeviceGetUUID")),
        memory_used=memory and memory.used / MIB,
        memory_total=memory and memory.total / MIB,
        utilisation=None if rates is None else rates.gpu,
        memory_utilisation=None if rates is None else rates.memory,
        power=_scaled(ask("nvmlDeviceGetPowerUsage"), 1e-3),
        power_limit=_scaled(ask("nvmlDeviceGetEnforcedPowerLimit"), 1e-3),
        temperature=ask("nvmlDeviceGetTemperature", getattr(nvml, "NVML_TEMPERATURE_GPU", 0)),
        fan=ask("nvmlDeviceGetFanSpeed"),
        clock=ask("nvmlDeviceGetClockInfo", getattr(nvml, "NVML_CLOCK_SM", 1)),
        driver=_driver(nvml),
        shared_with=_others(ask("nvmlDeviceGetComputeRunningProcesses")),
    )


def _driver(nvml: ModuleType) -> str | None:
    try:
        return _text(nvml.nvmlSystemGetDriverVersion())
    except (nvml.NVMLError, AttributeError):
        return None


def _others(processes: list | None) -> int | None:
    return None if processes is None else max(0, len(processes) - 1)


def _text(value: str | bytes | None) -> str | None:
    return value.decode() if isinstance(value, bytes) else value


def _scaled(value: float | None, by: float) -> float | None:
    return None if value is None else value * by
