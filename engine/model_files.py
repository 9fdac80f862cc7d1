"""Where the small files of a model are: the bundled folder, a local folder, or the Hugging Face cache. No torch."""

import json
from collections.abc import Sequence
from pathlib import Path

from engine.bundled import MODEL_DIR
from engine.config import WorkerConfig
from engine.errors import UnsupportedModel

SMALL_FILES = ("*.json", "*.jinja")
WEIGHT_FILES = ("*.safetensors",)  # never pickle


def model_folder(config: WorkerConfig, patterns: Sequence[str] = SMALL_FILES) -> Path:
    """The local folder of a model: bundled, a path, or a hub id (``patterns`` are fetched, or found in the cache).

    Raises:
        UnsupportedModel: the model is neither a folder nor a repository that can be reached; one line.
    """
    folder = MODEL_DIR if config.model == "bundled" else Path(config.model).expanduser()
    if folder.is_dir():
        return folder
    if folder.exists() or config.model.count("/") != 1 or config.model[0] in "./~":
        raise UnsupportedModel(f"no model folder at {config.model!r} (give a folder, a hub id or 'bundled')")
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(config.model, allow_patterns=list(patterns)))
    except Exception as error:  # offline, unknown id, gated: one line for all of them
        reason = str(error).strip().splitlines()[0]
        raise UnsupportedModel(f"cannot fetch {config.model!r} from the hub: {reason}") from error


def read_json(path: Path) -> dict:
    """A JSON file as a dict, empty when there is no such file."""
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
