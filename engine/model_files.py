"""Where the small files of a model are: the bundled folder, a local folder, or the Hugging Face cache. No torch."""

import json
from pathlib import Path

from engine.bundled import MODEL_DIR
from engine.config import WorkerConfig
from engine.errors import UnsupportedModel

SMALL_FILES = ["*.json", "*.jinja"]


def model_folder(config: WorkerConfig) -> Path:
    """The folder with the model's configuration and tokenizer; a hub id is fetched, or found in the cache when offline.

    Raises:
        UnsupportedModel: the model is neither a folder nor a repository that can be reached.
    """
    folder = MODEL_DIR if config.model == "bundled" else Path(config.model).expanduser()
    if folder.is_dir():
        return folder
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(config.model, allow_patterns=SMALL_FILES))
    except (LocalEntryNotFoundError, HFValidationError, OSError) as error:
        reason = str(error).splitlines()[0]
        raise UnsupportedModel(f"model {config.model!r} is no folder and could not be fetched ({reason})") from error


def read_json(path: Path) -> dict:
    """A JSON file as a dict, empty when there is no such file."""
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
