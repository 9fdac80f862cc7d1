"""Penalties on the logits of tokens that were already used, before one is chosen.

    x > 0: x / repetition     x <= 0: x * repetition     tokens of the prompt or the output
    x - presence - frequency * count                     tokens of the output

Fused because the plain formula makes a dozen passes over R x V; here a row with penalties is read and written once.
"""

import torch

from kernels.backend import check_rows, check_same_device, jit, tl, triton, use_triton


def apply_penalties_reference(
    logits: torch.Tensor,
    counts: torch.Tensor,
    prompt_mask: torch.Tensor,
    repetition: torch.Tensor,
    presence: torch.Tensor,
    frequency: torch.Tensor,
) -> None:
    """What ``apply_penalties`` computes, in plain PyTorch."""
    x, factor = logits.float(), repetition.unsqueeze(1)
    repeated = torch.where(x > 0, x / factor, x * factor)
    x = torch.where(prompt_mask.bool() | (counts > 0), repeated, x)
    x = x - frequency.unsqueeze(1) * counts - presence.unsqueeze(1) * (counts > 0)
    logits.copy_(x)


@jit
def _penalties_kernel(
    logits_ptr, count_ptr, prompt_ptr, repetition_ptr, presence_ptr, frequency_ptr, vocab,
    logits_stride, count_stride, prompt_stride, BLOCK: tl.constexpr,
):  # fmt: skip
    """BLOCK tokens of one row per program; a row without penalties moves nothing."""
    row, token = tl.program_id(0).to(tl.int64), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    repetition = tl.load(repetition_ptr + row)
    presence, frequency = tl.load(presence_ptr + row), tl.load(frequency_ptr + row)
    if (repetition != 1.0) | (presence != 0.0) | (frequency != 0.0):
        inside = token < vocab
        x = tl.load(logits_ptr + row * logits_stride + token, mask=inside, other=0.0).to(tl.float32)
        count = tl.load(count_ptr + row * count_stride + token, mask=inside, other=0)
        prompt = tl.load(prompt_ptr + row * prompt_stride + token, mask=inside, other=0) != 0
        repeated = tl.where(x > 0, x / repetition, x * repetition)
        x = tl.where(prompt | (count > 0), repeated, x)
        x -= frequency * count.to(tl.float32) + tl.where(count > 0, presence, 0.0)
        tl.store(logits_ptr + row * logits_stride + token, x.to(logits_ptr.dtype.element_ty), mask=inside)


def apply_penalties(
    logits: torch.Tensor,
    counts: torch.Tensor,
    prompt_mask: torch.Tensor,
    repetition: torch.Tensor,
    presence: torch.Tensor,
    frequency: torch.Tensor,
    backend: str | None = None,
) -> None:
    """Lower the logits of tokens already used, in place.

    Tokens of prompt or output: positive logits divided, negative ones multiplied by ``repetition`` (1: off). Tokens of
    the output: less ``presence`` once and ``frequency`` per occurrence (0: off; OpenAI's definitions).

    Args:
        logits: (R, V), any float dtype, any row stride.
        counts: (R, V) int32, occurrences in the output.
        prompt_mask: (R, V) bool or int8, non-zero where the prompt holds the token.
        repetition, presence, frequency: (R,) fp32.
    """
    if not use_triton(backend, logits):
        apply_penalties_reference(logits, counts, prompt_mask, repetition, presence, frequency)
        return
    check_rows(logits=logits, counts=counts, prompt_mask=prompt_mask)
    check_same_device(logits, counts=counts, prompt_mask=prompt_mask, repetition=repetition)
    rows, vocab = logits.shape
    if rows:
        _penalties_kernel[(rows, triton.cdiv(vocab, 1024))](
            logits, counts, prompt_mask, repetition, presence, frequency, vocab,
            logits.stride(0), counts.stride(0), prompt_mask.stride(0), BLOCK=1024, num_warps=4,
        )  # fmt: skip
