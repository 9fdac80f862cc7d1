"""The engine's fused kernels, one file each: what it computes (plain PyTorch), the Triton kernel, the launcher.

Nothing is imported here: transformers may import a package of this name at its own import time (see engine/worker).
"""
