"""From a model's name to its folder and its spec. Reads JSON only; never pickle, never code from a checkpoint."""

from pathlib import Path

import torch
from transformers import AutoConfig, PreTrainedConfig

from engine.config import WorkerConfig
from engine.errors import InvalidRequest, UnsupportedModel
from engine.model_files import read_json
from engine.worker.rope import RopeSpec
from engine.worker.spec import ModelSpec

ARCHITECTURES = {"llama": "LlamaForCausalLM", "qwen2": "Qwen2ForCausalLM", "qwen3": "Qwen3ForCausalLM"}
DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}
KV_DTYPES = DTYPES | {"int8": torch.int8, "fp8": torch.float8_e4m3fn}
FP8_CAPABILITY = (8, 9)  # the first CUDA devices that convert to e4m3


def resolve_device(config: WorkerConfig) -> torch.device:
    """The device to run on. Raises ``InvalidRequest`` when it does not exist here."""
    name = config.device
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    device = torch.device(name)
    if device.type != "cuda":
        return device
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if (device.index or 0) >= count:
        raise InvalidRequest("device", f"this machine has {count} CUDA devices", config.device)
    return torch.device("cuda", device.index or 0)


def resolve_dtype(config: WorkerConfig, device: torch.device) -> torch.dtype:
    """The dtype of weights and activations: fp32 on a CPU, bf16 on CUDA, fp16 below compute capability 8.0."""
    if config.dtype != "auto":
        return DTYPES[config.dtype]
    if device.type == "cpu":
        return torch.float32
    return torch.bfloat16 if torch.cuda.get_device_capability(device) >= (8, 0) else torch.float16


def resolve_kv_dtype(config: WorkerConfig, device: torch.device) -> torch.dtype:
    """The dtype of the KV pool: that of the activations unless another is asked for.

    Raises ``InvalidRequest`` for fp8 on a device that cannot convert to it.
    """
    if config.kv_dtype == "auto":
        return resolve_dtype(config, device)
    if config.kv_dtype == "fp8" and device.type == "cuda":
        major, minor = torch.cuda.get_device_capability(device)
        if (major, minor) < FP8_CAPABILITY:
            allowed = f"fp8 needs compute capability 8.9 and this GPU has {major}.{minor}; int8 runs here"
            raise InvalidRequest("kv_dtype", allowed, "fp8")
    return KV_DTYPES[config.kv_dtype]


def read_spec(folder: Path, name: str, dtype: torch.dtype, kv_dtype: torch.dtype, max_model_len: int) -> ModelSpec:
    """The spec of the checkpoint in ``folder``. Raises ``UnsupportedModel`` for what this engine cannot compute."""
    raw = read_json(folder / "config.json")
    if not raw:
        raise UnsupportedModel(f"{folder} has no config.json")
    _check_supported(raw)
    config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
    family = config.model_type
    biased = bool(getattr(config, "attention_bias", False))
    generation = read_json(folder / "generation_config.json")
    return ModelSpec(
        name=name,
        family=family,
        vocab_size=config.vocab_size,
        num_token_ids=_num_token_ids(folder, config.vocab_size),
        hidden_size=config.hidden_size,
        intermediate_size=config.intermediate_size,
        num_layers=config.num_hidden_layers,
        num_q_heads=config.num_attention_heads,
        num_kv_heads=config.num_key_value_heads,
        head_dim=getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads,
        rms_eps=config.rms_norm_eps,
        rope=_read_rope(config),
        max_positions=config.max_position_embeddings,
        max_model_len=min(max_model_len, config.max_position_embeddings),
        eos_ids=_id_set(config.eos_token_id) | _id_set(generation.get("eos_token_id")),
        tied=bool(config.tie_word_embeddings),
        qkv_bias=biased or family == "qwen2",
        o_bias=biased,
        mlp_bias=bool(getattr(config, "mlp_bias", False)),
        qk_norm=family == "qwen3",
        dtype=dtype,
        kv_dtype=kv_dtype,
    )


def _check_supported(raw: dict) -> None:
    family = raw.get("model_type")
    wanted = ARCHITECTURES.get(family)
    architectures = raw.get("architectures") or [wanted]
    if wanted is None or wanted not in architectures:
        raise UnsupportedModel(f"architecture {architectures[0] or family} is not supported", ARCHITECTURES.values())
    if raw.get("quantization_config"):
        raise UnsupportedModel("quantised checkpoints are not supported; use the bf16, fp16 or fp32 one")
    if raw.get("hidden_act", "silu") != "silu":
        raise UnsupportedModel(f"activation {raw['hidden_act']!r} is not supported", ["silu"])
    if raw.get("use_sliding_window"):
        raise UnsupportedModel("sliding-window attention is not supported")


def _read_rope(config: PreTrainedConfig) -> RopeSpec:
    parameters = getattr(config, "rope_parameters", None)
    if parameters is None:  # transformers before 5
        parameters = {"rope_theta": config.rope_theta, **(config.rope_scaling or {})}
    return RopeSpec.from_parameters(parameters, config.max_position_embeddings)


def _num_token_ids(folder: Path, vocab_size: int) -> int:
    """Ids below this have a text; a model's embedding is often padded beyond it."""
    path = folder / "tokenizer.json"
    if not path.exists():
        return vocab_size
    from tokenizers import Tokenizer

    ids = Tokenizer.from_file(str(path)).get_vocab(with_added_tokens=True).values()
    return min(vocab_size, max(ids, default=vocab_size - 1) + 1)


def _id_set(ids: int | list[int] | None) -> frozenset[int]:
    return frozenset([ids] if isinstance(ids, int) else ids or [])
