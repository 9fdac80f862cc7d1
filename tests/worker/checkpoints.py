"""Small random checkpoints, written by transformers, with weights large enough that an error cannot hide."""

import dataclasses
import math
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, LlamaConfig, PreTrainedModel, Qwen2Config, Qwen3Config

from engine.config import SchedulingConfig, WorkerConfig
from engine.worker.runner import TorchWorker

CONFIGS = {"llama": LlamaConfig, "qwen2": Qwen2Config, "qwen3": Qwen3Config}
SIZES = {
    "vocab_size": 512,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "max_position_embeddings": 1024,
    "eos_token_id": None,
    "bos_token_id": None,
    "pad_token_id": None,
}
YARN = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 64}
LINEAR = {"rope_type": "linear", "rope_theta": 10000.0, "factor": 2.0}


def llama3_rope(factor: float) -> dict:
    """The scaling of Llama 3.1 (factor 8) and 3.2 (factor 32)."""
    return {
        "rope_type": "llama3",
        "rope_theta": 500000.0,
        "factor": factor,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    }


def build(family: str, seed: int = 0, **overrides) -> PreTrainedModel:
    """A transformers model of ``family`` with random weights, biases of deviation 1 and norms around 1 (fp32)."""
    torch.manual_seed(seed)
    config = CONFIGS[family](**{**SIZES, **overrides})
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32, attn_implementation="eager").eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if name.endswith("bias"):
                weight.normal_()
            elif weight.dim() == 1:
                weight.normal_(1.0, 0.1)
            else:
                weight.normal_(0.0, (2.0 if "embed" in name or "lm_head" in name else 1.0) / math.sqrt(weight.shape[1]))
    return model


def save(model: PreTrainedModel, folder: Path) -> Path:
    """Write the checkpoint without a generation config (tests add one where it matters)."""
    model.save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    return folder


LIMITS = SchedulingConfig(pool_blocks=64, block_size=4, max_num_seqs=4, token_budget=32, max_model_len=1024)


def worker_for(
    folder: Path | str,
    device: str = "cpu",
    dtype: str = "fp32",
    kv_dtype: str = "auto",
    quantize: str | None = None,
    **limits,
) -> TorchWorker:
    """A worker on a checkpoint, in fp32 and with small limits unless told otherwise."""
    scheduling = dataclasses.replace(LIMITS, **limits)
    config = WorkerConfig(model=str(folder), device=device, dtype=dtype, kv_dtype=kv_dtype, quantize=quantize)
    return TorchWorker(config, scheduling, scheduling.pool_blocks)
