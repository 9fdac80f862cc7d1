"""Hugging Face transformers on the same items, in the same process: what ``bench throughput --compare`` stands beside.

Static batches through ``generate``: groups of the engine's rows in order of arrival, padded on the left with the mask
that makes padding invisible, each group run to its longest answer. Its tokens are counted as ours are: those that
belong to an answer, not those computed behind its end.
"""

import time
from collections.abc import Sequence
from typing import Any

from engine.bundled import MODEL_DIR
from engine.config import WorkerConfig
from engine.workload.drive import Progress, silent
from engine.workload.items import Item


def generate_static(
    model: Any,
    items: Sequence[Item],
    rows: int,
    cap_s: float,
    progress: Progress = silent,
) -> dict:
    """Throughput of ``model.generate`` over ``items``, stopped after ``cap_s`` seconds.

    Args:
        model: a causal model of transformers, in eval mode, on its device.
        rows: requests in a batch.

    Returns:
        ``output_throughput``, ``total_output_tokens``, ``duration_s``, ``completed`` and ``capped``.
    """
    _generate(model, items[:1], 2, time.perf_counter() + cap_s)  # warm-up, not timed
    start = time.perf_counter()
    tokens = completed = 0
    for begin in range(0, len(items), rows):
        progress("transformers, static batches", begin / len(items))
        group = items[begin : begin + rows]
        answers = _generate(model, group, max(item.output_length for item in group), start + cap_s)
        tokens += sum(len(answer) for answer in answers)
        completed += sum(len(answer) == item.output_length for answer, item in zip(answers, group, strict=True))
        if time.perf_counter() - start >= cap_s:
            break
    seconds = time.perf_counter() - start
    return {
        "mode": "generate, static batches",
        "output_throughput": tokens / seconds,
        "total_output_tokens": tokens,
        "duration_s": seconds,
        "completed": completed,
        "capped": completed < len(items),
    }


def static_answers(model: Any, prompts: Sequence[list[int]], tokens: int) -> list[list[int]]:
    """Greedy answers of ``tokens`` tokens to prompts of unequal length, as one left-padded batch."""
    items = [Item(list(prompt), tokens, tokens) for prompt in prompts]
    return _generate(model, items, tokens, time.perf_counter() + 3600)


def peer_model(spec: Any, config: WorkerConfig, device: str) -> Any:
    """The transformers model of a worker's ``ModelSpec``: the same files, or random weights of the same shape."""
    import torch
    from transformers import AutoModelForCausalLM

    if config.random_weights is None:
        source = MODEL_DIR if config.model == "bundled" else config.model
        model = AutoModelForCausalLM.from_pretrained(source, dtype=spec.dtype)
        return model.to(device).eval()
    torch.manual_seed(0)
    with torch.device(device):
        model = AutoModelForCausalLM.from_config(_peer_config(spec), dtype=spec.dtype)
    return model.eval()


def _generate(model: Any, group: Sequence[Item], longest: int, deadline: float) -> list[list[int]]:
    """The answers of one static batch; each is cut to its own length, and to what was done at the deadline."""
    import torch
    from transformers import GenerationConfig

    width = max(len(item.prompt_ids) for item in group)
    pads = [width - len(item.prompt_ids) for item in group]
    ids = torch.tensor([[0] * pad + item.prompt_ids for pad, item in zip(pads, group, strict=True)])
    mask = torch.tensor([[0] * pad + [1] * (width - pad) for pad in pads])
    config = GenerationConfig(max_new_tokens=longest, do_sample=False, eos_token_id=None, pad_token_id=0)
    with torch.inference_mode():
        out = model.generate(
            ids.to(model.device),
            attention_mask=mask.to(model.device),
            generation_config=config,
            stopping_criteria=_deadline(deadline),
        )
    return [row[: item.output_length] for row, item in zip(out[:, width:].tolist(), group, strict=True)]


def _deadline(deadline: float) -> Any:
    import torch
    from transformers import StoppingCriteria, StoppingCriteriaList

    class Deadline(StoppingCriteria):
        """Stops a batch when the time is up."""

        def __call__(self, input_ids: torch.Tensor, scores: Any, **_kwargs: Any) -> torch.Tensor:
            late = time.perf_counter() > deadline
            return torch.full((input_ids.shape[0],), late, dtype=torch.bool, device=input_ids.device)

    return StoppingCriteriaList([Deadline()])


def _peer_config(spec: Any) -> Any:
    """The configuration of a transformers model with the sizes of ``spec``."""
    from transformers import LlamaConfig, Qwen3Config

    return (Qwen3Config if spec.qk_norm else LlamaConfig)(
        vocab_size=spec.vocab_size,
        hidden_size=spec.hidden_size,
        intermediate_size=spec.intermediate_size,
        num_hidden_layers=spec.num_layers,
        num_attention_heads=spec.num_q_heads,
        num_key_value_heads=spec.num_kv_heads,
        head_dim=spec.head_dim,
        max_position_embeddings=spec.max_positions,
        tie_word_embeddings=spec.tied,
        eos_token_id=None,
        bos_token_id=None,
    )
