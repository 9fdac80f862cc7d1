"""Computes steps: the model, its weights, the KV pool, the persistent rows. The only part of the engine with torch.

Importing this package first raises a shield around the name ``kernels``. Transformers probes for a distribution of that
name when its first model class is imported, and would take our own ``kernels`` package for it.
"""

import sys


def _shield_kernels() -> None:
    """Let transformers conclude, once and for this process, that Hugging Face's ``kernels`` is not installed."""
    ours = sys.modules.get("kernels")
    sys.modules["kernels"] = None  # type: ignore[assignment]  # find_spec answers None, import raises
    try:
        from transformers.utils import import_utils

        import_utils.is_kernels_available()  # cached from here on
        import transformers.integrations.hub_kernels  # noqa: F401  # decides while it is imported
    finally:
        del sys.modules["kernels"]
        if ours is not None:
            sys.modules["kernels"] = ours


_shield_kernels()
