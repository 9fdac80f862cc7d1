"""Which implementation runs: ``"triton"`` (compiled, or interpreted on a CPU) or ``"reference"`` (plain PyTorch).

The choice is an argument of every launcher, never a global switch, so both can be called side by side in a test, a
lesson or a benchmark. Triton is optional: without it the modules import all the same and only the reference exists.
"""

import logging
from functools import lru_cache
from types import SimpleNamespace

import torch

try:
    import triton
    import triton.language as tl

    jit = triton.jit
    INTERPRET = bool(triton.knobs.runtime.interpret)  # TRITON_INTERPRET=1 was set before triton's first import
except ImportError:
    triton, tl = None, SimpleNamespace(constexpr=object)  # enough for the kernels below to be defined, not run
    INTERPRET = False

    def jit(fn: object) -> object:
        """Stand-in for ``triton.jit``: leaves a kernel as an ordinary function that nobody calls."""
        return fn


log = logging.getLogger(__name__)
BACKENDS = ("triton", "reference")


@lru_cache
def default_backend(device: torch.device) -> str:
    """``"triton"`` on CUDA from compute capability 8.0 when Triton is installed, else ``"reference"``."""
    if device.type != "cuda" or torch.cuda.get_device_capability(device) < (8, 0):
        return "reference"
    if triton is None:
        log.warning("triton is not installed: the plain PyTorch references run on %s, slowly", device)
        return "reference"
    return "triton"


def use_triton(backend: str | None, x: torch.Tensor) -> bool:
    """Resolve a launcher's ``backend`` argument for the device of ``x``.

    Raises:
        ValueError: for an unknown name, or ``"triton"`` on a CPU tensor outside the interpreter.
        RuntimeError: for ``"triton"`` when Triton is not installed.
    """
    if backend is None:
        return default_backend(x.device) == "triton"
    if backend not in BACKENDS:
        raise ValueError(f"backend: one of {', '.join(BACKENDS)}, or none for the default; got {backend!r}")
    if backend == "reference":
        return False
    if triton is None:
        raise RuntimeError("backend 'triton' needs the triton package; only 'reference' is available without it")
    if not x.is_cuda and not INTERPRET:
        raise ValueError(
            "backend 'triton' needs CUDA tensors, or TRITON_INTERPRET=1 set before anything imports triton"
        )
    return True


@lru_cache
def launches_dependents(device: torch.device) -> bool:
    """Whether kernels on ``device`` can be launched before the one in front has ended (compute capability 9.0)."""
    return not INTERPRET and device.type == "cuda" and torch.cuda.get_device_capability(device) >= (9, 0)


def dependent_launch(x: torch.Tensor) -> dict[str, bool]:
    """Launch arguments of a kernel that calls ``wait_for_inputs``: both or neither, or nothing orders it."""
    dependent = launches_dependents(x.device)
    return {"DEPENDENT": dependent, "launch_pdl": dependent}


@jit
def wait_for_inputs(DEPENDENT: tl.constexpr) -> None:
    """Stand still until the kernels in front have ended, and let the one behind start its own preparations.

    Every program of a dependent kernel calls it before it reads what they wrote and before its first store (they may
    still read there). Weights, which no kernel writes, may be read earlier: that is the gain, besides a hidden launch.
    """
    if DEPENDENT:
        tl.extra.cuda.gdc_launch_dependents()
        tl.extra.cuda.gdc_wait()


def check_rows(**tensors: torch.Tensor | None) -> None:
    """Refuse a tensor whose last dimension is strided: kernels take any row stride but read rows contiguously.

    Raises:
        ValueError: naming the tensor and its stride.
    """
    for name, x in tensors.items():
        if x is not None and x.stride(-1) != 1 and x.shape[-1] > 1:
            raise ValueError(f"{name}: the last dimension must be contiguous; got stride {x.stride(-1)}")


def check_same_device(first: torch.Tensor, **tensors: torch.Tensor | None) -> None:
    """Refuse tensors that live on another device than ``first``.

    Raises:
        ValueError: naming the tensor and both devices.
    """
    for name, x in tensors.items():
        if x is not None and x.device != first.device:
            raise ValueError(f"{name}: expected on {first.device}; got {x.device}")
