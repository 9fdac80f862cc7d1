"""Decode attention alone against its context: the kernel on an 8-bit cache beside the same kernel on a bf16 cache."""

from collections.abc import Sequence

import torch

from engine.workload.drive import Progress, silent
from engine.workload.kernel_bench import check, time_calls
from engine.workload.kernel_kv_cases import BLOCK_SIZE, formats_of, quantised_decode_case
from kernels.kv_format import format_of

Heads = tuple[int, int]  # query heads, KV heads


def kv_kernel_times(
    device: str, rows: int, heads: Heads, contexts: Sequence[int], progress: Progress = silent
) -> list[dict]:
    """Microseconds of one call for each 8-bit format of ``device`` ("cuda", "cpu") and each of ``contexts``.

    Each call is checked against the fp32 formula before it is timed. On a CPU the plain references run.

    Args:
        contexts: tokens of a row, multiples of ``BLOCK_SIZE``.

    Returns:
        ``kv_dtype``, ``context``, ``us``, ``bf16_us``, ``bytes`` (that the call must move, scales included) and
        ``gb_s`` of each.

    Raises:
        ValueError: a context that is no multiple.
        RuntimeError: the kernel's answer is wrong.
    """
    if any(context % BLOCK_SIZE for context in contexts):
        raise ValueError(f"contexts: multiples of {BLOCK_SIZE}, not {list(contexts)}")
    kinds = [(kind, context) for kind in formats_of(device) for context in contexts]
    entries = []
    with torch.no_grad():
        for place, (kind, context) in enumerate(kinds):
            name = format_of(torch.empty(0, dtype=kind))
            progress(f"{name}, {context} tokens", place / len(kinds))
            case = quantised_decode_case(rows, heads, context, kind, device)
            check(case)
            us = time_calls(case.calls, device)
            plain = time_calls(case.peers["bf16 cache"], device)
            entry = {"kv_dtype": name, "context": context, "us": us, "bf16_us": plain, "bytes": case.bytes}
            entries.append(entry | {"gb_s": case.bytes / us / 1e3})
    return entries
