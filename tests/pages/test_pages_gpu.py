"""The device card against a fake NVML that fails in each way that was reported (bug reports H-08, H-09, H-10)."""

from dataclasses import fields as fields_of
from types import SimpleNamespace

import pytest

from pages.parts.device_card import fields
from pages.parts.gpu import Card, NoGPU, read_card

GIB = 2**30


class NVMLError(Exception):
    """Base of the fake's errors."""


class FakeNVML:
    """Two cards of 24 and 8 GiB. ``broken`` names the calls that raise; ``dead`` is what init raises."""

    NVMLError = NVMLError

    def __init__(self, broken: tuple[str, ...] = (), dead: str = "") -> None:
        self.broken, self.dead = broken, dead

    def nvmlInit(self) -> None:
        if self.dead:
            raise NVMLError(self.dead)

    def nvmlDeviceGetCount(self) -> int:
        return 2

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        if index > 1:
            raise NVMLError("Invalid Argument")
        return index

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> int:
        return {"GPU-aaaa-1": 0, "GPU-bbbb-2": 1}[uuid]

    def nvmlSystemGetDriverVersion(self) -> str:
        return "580.1"

    def __getattr__(self, name: str) -> object:
        answers = {
            "nvmlDeviceGetName": ("big", b"small"),
            "nvmlDeviceGetUUID": ("GPU-aaaa-1", "GPU-bbbb-2"),
            "nvmlDeviceGetMemoryInfo": (
                SimpleNamespace(used=0, total=24 * GIB),
                SimpleNamespace(used=0, total=8 * GIB),
            ),
            "nvmlDeviceGetUtilizationRates": (SimpleNamespace(gpu=0, memory=0),) * 2,
            "nvmlDeviceGetPowerUsage": (0, 31_000),
            "nvmlDeviceGetEnforcedPowerLimit": (400_000, 300_000),
            "nvmlDeviceGetTemperature": (40, 41),
            "nvmlDeviceGetFanSpeed": (0, 30),
            "nvmlDeviceGetClockInfo": (1200, 1300),
            "nvmlDeviceGetComputeRunningProcesses": ([], [1, 2]),
        }
        if name not in answers:
            raise AttributeError(name)

        def call(handle: int, *arguments: object) -> object:
            if name in self.broken:
                raise NVMLError("Not Supported")
            return answers[name][handle]

        return call


def _read(nvml: FakeNVML, visible: str | None = None, uuid: str | None = None) -> Card:
    environ = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    return read_card(uuid, environ, lambda name: nvml)


FIELDS = {
    "nvmlDeviceGetUtilizationRates": "utilisation",
    "nvmlDeviceGetPowerUsage": "power",
    "nvmlDeviceGetFanSpeed": "fan",
    "nvmlDeviceGetTemperature": "temperature",
}


@pytest.mark.parametrize("call", FIELDS)
def test_H_08_a_field_that_is_not_supported_is_na_and_the_others_stay(call: str) -> None:
    """Guards against a card that dies, or shows 0, because one value is not offered (MIG)."""
    card = _read(FakeNVML(broken=(call,)))
    assert getattr(card, FIELDS[call]) is None
    assert card.memory_total == 24 * 1024 and card.name == "big"
    whole = _read(FakeNVML())
    others = [f.name for f in fields_of(card) if f.name not in (FIELDS[call], "memory_utilisation")]
    assert all(getattr(card, name) == getattr(whole, name) for name in others)


def test_H_08_all_fields_missing_never_become_a_zero() -> None:
    """Guards against invented zeros: a real 0 % and a missing value look different."""
    nothing = fields(_read(FakeNVML(broken=(*FIELDS, "nvmlDeviceGetMemoryInfo", "nvmlDeviceGetClockInfo"))))
    assert list(nothing.values()).count("N/A") == 5 and "N/A / N/A" in nothing.values()
    assert "0 %" in fields(_read(FakeNVML())).values()


@pytest.mark.parametrize(
    "reason", ["NVML Shared Library Not Found", "Driver Not Loaded", "RM has detected a version mismatch"]
)
def test_H_09_a_missing_driver_is_a_reason_and_later_tries_work(reason: str) -> None:
    """Guards against a page that dies at import, or that remembers the failure for ever."""
    nvml = FakeNVML(dead=reason)
    with pytest.raises(NoGPU, match=reason):
        _read(nvml)
    nvml.dead = ""
    assert _read(nvml).name == "big"


def test_H_09_without_the_package_the_reason_says_so() -> None:
    """Guards machines that never installed nvidia-ml-py."""

    def missing(name: str) -> None:
        raise ModuleNotFoundError(name)

    with pytest.raises(NoGPU, match="nvidia-ml-py"):
        read_card(None, {}, missing)


def test_H_10_the_card_is_the_one_that_the_engine_uses() -> None:
    """Guards against NVML's first card being shown whatever CUDA_VISIBLE_DEVICES says."""
    nvml = FakeNVML()
    assert _read(nvml, "1").memory_total == 8 * 1024
    assert _read(nvml, "GPU-bbbb").name == "small"
    assert _read(nvml, "0", uuid="bbbb-2").name == "small"
    for hidden in ("", "-1"):
        with pytest.raises(NoGPU, match="no GPU visible"):
            _read(nvml, hidden)
