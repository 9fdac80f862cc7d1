"""Where a number comes from: device, driver, versions, commit. Stands in every RUN record and every benchmark file."""

import platform
import subprocess
from functools import cache
from importlib import metadata
from pathlib import Path

PACKAGES = ("torch", "triton", "transformers", "tokenizers", "numpy")


def provenance() -> dict:
    """``driver``, ``versions`` and ``commit`` of this machine and this tree; an unknown one is an empty string."""
    return {"driver": driver_version(), "versions": versions(), "commit": commit()}


@cache
def versions() -> dict[str, str]:
    """Versions of Python and of the packages that decide speed; packages that are not installed are left out."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


@cache
def driver_version() -> str:
    """Version of the NVIDIA driver, empty without one."""
    try:
        import pynvml

        pynvml.nvmlInit()
        return str(pynvml.nvmlSystemGetDriverVersion())
    except Exception:  # no package, no library, no device: a machine without NVIDIA is an ordinary machine
        return ""


def device_name(device: object) -> str:
    """The model name of a device (``"cpu"``, ``"cuda:0"`` or a ``torch.device``) as its maker calls it."""
    if str(device).startswith("cuda"):
        import torch

        return torch.cuda.get_device_name(device)
    return _cpu_name()


@cache
def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


@cache
def commit() -> str:
    """The commit of this tree with ``+`` behind it when files were changed, empty outside a repository."""
    head = _git("rev-parse", "HEAD")
    return head + ("+" if head and _git("status", "--porcelain", "--untracked-files=no") else "")


def _git(*arguments: str) -> str:
    here = Path(__file__).parent
    try:
        done = subprocess.run(["git", *arguments], cwd=here, capture_output=True, text=True, timeout=5)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
