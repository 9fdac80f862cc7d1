"""Measures a saved model through transformers, independently of the training code, and writes its card from that."""

import math
from dataclasses import dataclass
from pathlib import Path

import torch
from torch.nn import functional as F
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

PROMPTS = ("Elizabeth had scarcely opened the letter, when", "And the king said unto the woman,", "The carriage")


@dataclass(frozen=True)
class Quality:
    """Loss of the saved file on held-out text."""

    nats_per_token: float
    bits_per_byte: float
    tokens: int


def load(folder: Path, device: torch.device) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Load the saved files as a user would; computing in fp32, so that only the stored weights are rounded."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).to(device).eval()
    return model, AutoTokenizer.from_pretrained(folder)


@torch.no_grad()
def measure(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, documents: list[str]) -> Quality:
    """Score every token of the documents, in pieces of one context; the end token precedes the first."""
    ids = [tokenizer.eos_token_id]
    for document in documents:
        encoded = tokenizer(document, verbose=False)["input_ids"]
        if tokenizer.decode(encoded) != document:
            raise RuntimeError(f"the saved tokenizer does not round-trip: {document[:60]!r}")
        ids += [*encoded, tokenizer.eos_token_id]
    stream, context, nats = torch.tensor(ids, device=model.device), model.config.max_position_embeddings, 0.0
    for start in range(0, len(ids) - 1, context):
        window = stream[start : start + context + 1]
        logits = model(window[None, :-1]).logits[0]
        nats += F.cross_entropy(logits, window[1:], reduction="sum").item()
    size = sum(len(document.encode()) for document in documents)
    return Quality(nats / (len(ids) - 1), nats / math.log(2) / size, len(ids) - 1)


def sample(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, prompt: str, seed: int) -> str:
    """Continue a prompt with the model's own generation defaults."""
    torch.manual_seed(seed)
    inputs = tokenizer(prompt, return_tensors="pt").to(model.device)
    return tokenizer.decode(model.generate(**inputs, max_new_tokens=120)[0], skip_special_tokens=True)


def write_card(
    folder: Path, facts: dict[str, str], held_out: list[str], loss_in_training: float, device: torch.device
) -> str:
    """Write `folder`/README.md from the training's `facts` and from what the saved files measure; return its text.

    Raises ``RuntimeError`` when the saved files measure another loss than training did: then training computed
    another function than transformers (stale weights in a cache once did, and the wrong weights were kept).
    """
    model, tokenizer = load(folder, device)
    quality, config = measure(model, tokenizer, held_out), model.config
    if abs(quality.nats_per_token - loss_in_training) > 0.05:
        raise RuntimeError(f"held-out loss: {loss_in_training:.3f} in training, {quality.nats_per_token:.3f} as saved")
    rows = {
        "architecture": f"Llama: {config.num_hidden_layers} layers, hidden {config.hidden_size}, feed-forward "
        f"{config.intermediate_size}, {config.num_attention_heads} query and {config.num_key_value_heads} key-value "
        f"heads of {config.head_dim}, tied embeddings",
        "parameters": f"{sum(weight.numel() for weight in model.parameters()):,} (bf16, "
        f"{(folder / 'model.safetensors').stat().st_size / 1e6:.1f} MB)",
        "vocabulary, context": f"{config.vocab_size:,} (byte-level BPE), {config.max_position_embeddings:,} tokens",
        **facts,
        "held-out loss": f"{quality.nats_per_token:.3f} nats per token, {quality.bits_per_byte:.3f} bits per byte "
        f"({quality.tokens:,} tokens, the last 3 % of each book)",
    }
    table = "\n".join(f"| {name} | {value} |" for name, value in rows.items())
    samples = "\n\n".join(_quote(prompt, sample(model, tokenizer, prompt, seed)) for seed, prompt in enumerate(PROMPTS))
    text = CARD.format(table=table, samples=samples)
    (folder / "README.md").write_text(text, encoding="utf-8")
    return text


def _quote(prompt: str, text: str) -> str:
    body = text.removeprefix(prompt).rstrip().replace("\n", "\n> ").replace("> \n", ">\n")
    return f"> **{prompt}**{body}"


CARD = """# The bundled tiny model

A small Llama that continues prose in the manner of Jane Austen and of the King James Bible. It exists so that
Flightdeck runs offline, in seconds, without a GPU; it knows nothing else and should not be used for anything else. It
is a base model: it completes text, it does not answer questions.

| | |
| --- | --- |
{table}

Sources: the six novels of Jane Austen (R package `janeaustenr`, from Project Gutenberg) and the King James Bible
(Debian package `bible-kjv`). Both are in the public domain (in the United Kingdom, printing the King James Bible is a
privilege of the Crown).

Made by `python -m engine.bundled.train`, which wrote this card. The loss was measured on the saved files, loaded with
transformers.

## Samples

Temperature 0.8, top-p 0.95, seeds 0 to 2, not selected. The prompt is bold.

{samples}
"""
