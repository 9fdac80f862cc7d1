"""The bundled tiny model: 7 million parameters in Hugging Face format, so the engine runs offline and without a GPU.

`MODEL_DIR` is loaded by the same code as any other model, and `model/README.md` is its card. The rest made it:
`corpus.py` reads two public-domain texts, `network.py` is the network as it is trained, `loop.py` trains it,
`package.py` writes its files, `card.py` measures them, and `train.py` is the command that does all of it.
"""

from pathlib import Path

MODEL_DIR: Path = Path(__file__).resolve().parent / "model"
