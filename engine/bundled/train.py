"""Trains the bundled tiny model from two texts and writes it in Hugging Face format, with its card.

    python -m engine.bundled.train --text FOLDER --out engine/bundled/model --minutes 8

`corpus.py` says how the two texts are made. A GPU takes minutes; a CPU would take a day.
"""

import argparse
import os
import sys
from pathlib import Path

import torch

from engine.bundled import corpus

CONTEXT = 2048


def parse_options() -> argparse.Namespace:
    """Read the command line. The defaults made the model that is in the tree."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", type=Path, required=True, help="folder with austen.txt and bible.txt")
    parser.add_argument("--out", type=Path, required=True, help="folder to write the model into")
    parser.add_argument("--minutes", type=float, default=3.5, help="time limit of training")
    parser.add_argument("--epochs", type=float, default=60.0, help="passes over the text at which the schedule ends")
    parser.add_argument("--batch-tokens", type=int, default=32768, help="tokens per optimizer step")
    parser.add_argument("--rate", type=float, default=2e-3, help="peak learning rate")
    parser.add_argument("--dropout", type=float, default=0.3, help="share dropped of embeddings and sublayer outputs")
    parser.add_argument("--weight-decay", type=float, default=0.1, help="AdamW's decay of the matrices")
    return parser.parse_args()


def prepare_transformers() -> None:
    """Keep transformers offline, and from taking our `kernels` for Hugging Face's package of that name."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    sys.modules["kernels"] = None  # type: ignore[assignment]


def main() -> None:
    """Read, tokenize, train, save, measure: one call each."""
    options = parse_options()
    prepare_transformers()
    from engine.bundled import card, loop, package
    from engine.bundled.network import Network

    torch.set_num_threads(1)
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "one CPU thread"
    documents, held_out_documents = corpus.split(corpus.read_books(options.text))
    tokenizer = package.train_tokenizer(documents, CONTEXT)
    config = package.model_config(tokenizer, CONTEXT)
    training = torch.tensor(package.encode(tokenizer, documents), device=device)
    held_out = torch.tensor(package.encode(tokenizer, held_out_documents), device=device)
    print(f"{len(training):,} training and {len(held_out):,} held-out tokens on {name}", flush=True)
    network = Network(config, options.dropout, device)
    outcome = loop.train(network, training, held_out, options)
    package.save_model(options.out, network, config, tokenizer)
    facts = {
        "training text": f"{len(training):,} tokens; weights kept after {outcome.best_pass:.1f} passes",
        "training": f"{outcome.seconds:.0f} s on {name}: {outcome.steps:,} steps of {options.batch_tokens:,} tokens, "
        f"{outcome.tokens / outcome.seconds:,.0f} tokens/s",
        "settings": f"peak rate {options.rate:g}, dropout {options.dropout:g}, weight decay {options.weight_decay:g}, "
        f"schedule of {options.epochs:g} passes",
    }
    print(card.write_card(options.out, facts, held_out_documents, outcome.best_loss, device))


if __name__ == "__main__":
    main()
