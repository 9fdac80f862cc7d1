"""Two curves of a weight format: time against tokens, up to where 16 bits win, and error against the size of a group.

Numbers only; whoever draws them says what was measured (time, on this machine) and what follows from weights (error).
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import pad

from engine.workload.drive import Progress, silent
from engine.workload.kernel_bench import time_calls
from engine.workload.kernel_case import random, sets
from kernels import quant_linear, skinny
from kernels.quantise import group_steps, quantise, stored_bytes

ROWS = (1, 2, 4, 8, 16, 32, 64, 96, 128, 192, 256, 512, 1024)
GROUPS = (32, 64, 128, 256, 512, 1024)
SCALE_BITS = 16


def time_against_rows(
    form: str,
    outputs: int,
    inputs: int,
    device: str,
    rows: Sequence[int] = ROWS,
    progress: Progress = silent,
) -> list[dict[str, float]]:
    """One layer (outputs, inputs) in ``form`` and in bf16, each the engine's fastest way, for each number of tokens.

    Returns:
        ``rows``, ``us``, ``dense_us`` and ``ratio`` (dense_us / us: above 1 the format wins).
    """
    plain = 2 * outputs * inputs
    dense = [random(outputs, inputs, device=device) / inputs**0.5 for _ in range(sets(plain, device))]
    count = sets(stored_bytes(form, outputs, inputs), device)
    stored = [quantise(dense[index % len(dense)], form) for index in range(count)]
    found = []
    for index, tokens in enumerate(rows):
        progress(f"{form}, {tokens} tokens", index / len(rows))
        x = random(tokens, inputs, device=device)
        us = time_calls([lambda w=w, x=x: quant_linear.linear(x, w) for w in stored], device)
        dense_us = time_calls([lambda w=w, x=x: skinny.linear(x, w) for w in dense], device)
        found.append({"rows": tokens, "us": us, "dense_us": dense_us, "ratio": dense_us / us})
    return found


def crossing(curve: Sequence[dict[str, float]]) -> int | None:
    """The fewest tokens of the curve from which on 16 bits are faster; None where the format wins to the end."""
    losing = None
    for point in reversed(curve):
        if point["ratio"] >= 1:
            break
        losing = point["rows"]
    return losing


def error_against_group(weight: Tensor, groups: Sequence[int] = GROUPS) -> list[dict[str, float]]:
    """int4 of ``weight`` (N, K) with a scale per group of inputs, for each size of a group.

    Returns:
        ``group``, ``bits`` (a weight with its share of the scale) and ``relative_error`` (||stored - w|| / ||w||).
    """
    found = []
    for group in groups:
        padded = pad(weight.float(), (0, -weight.shape[1] % group))
        steps, scales = group_steps(padded, group)
        stood_for = (steps.unflatten(1, (-1, group)) * scales.float()[:, :, None]).flatten(1)
        error = torch.linalg.vector_norm(stood_for - padded) / torch.linalg.vector_norm(padded)
        found.append({"group": group, "bits": 4 + SCALE_BITS / group, "relative_error": error.item()})
    return found
