"""The tiny model's tokenizer and files: what is saved beside the weights so that any Hugging Face tool can load it."""

from pathlib import Path

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import GenerationConfig, LlamaConfig, PreTrainedTokenizerFast

END, PAD = "<|endoftext|>", "<|pad|>"
VOCABULARY = 4096


def train_tokenizer(documents: list[str], context: int) -> PreTrainedTokenizerFast:
    """Byte-level BPE: any text can be encoded, and decoding gives back exactly what was encoded."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[END, PAD],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(documents, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token=END,
        eos_token=END,
        pad_token=PAD,
        model_max_length=context,
        model_input_names=["input_ids", "attention_mask"],
        clean_up_tokenization_spaces=False,
    )


def encode(tokenizer: PreTrainedTokenizerFast, documents: list[str]) -> list[int]:
    """All documents as one stream of token ids, each followed by the end token."""
    encoded = tokenizer.backend_tokenizer.encode_batch(documents)
    return [token for document in encoded for token in [*document.ids, tokenizer.eos_token_id]]


def model_config(tokenizer: PreTrainedTokenizerFast, context: int) -> LlamaConfig:
    """Describe a Llama of 7 million parameters: heads of 64, two queries to a key-value head."""
    return LlamaConfig(
        architectures=["LlamaForCausalLM"],
        dtype="bfloat16",
        vocab_size=VOCABULARY,
        hidden_size=256,
        intermediate_size=704,
        num_hidden_layers=8,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=64,
        max_position_embeddings=context,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
        rms_norm_eps=1e-5,
        tie_word_embeddings=True,
        use_cache=True,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )


def save_model(folder: Path, network: torch.nn.Module, config: LlamaConfig, tokenizer: PreTrainedTokenizerFast) -> None:
    """Write weights (bf16 safetensors), configs and tokenizer files into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    weights = {f"model.{name}": w.to("cpu", torch.bfloat16).contiguous() for name, w in network.state_dict().items()}
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    config.save_pretrained(folder)
    GenerationConfig(
        do_sample=True,
        temperature=0.8,
        top_p=0.95,
        bos_token_id=config.bos_token_id,
        eos_token_id=config.eos_token_id,
        pad_token_id=config.pad_token_id,
    ).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    (folder / "model.safetensors").chmod(0o644)  # safetensors writes it for its owner only
