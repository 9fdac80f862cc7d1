"""Shared by all tests: the shield around the name ``kernels``, and one thread (two are slower on a small machine)."""

import engine.worker  # noqa: F401  # isort: skip  # the shield, before any transformers model class

import torch

torch.set_num_threads(1)
