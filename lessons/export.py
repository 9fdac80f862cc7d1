"""A lesson as a notebook file (nbformat 4) in a language. Its first cell finds the project, or installs it (Colab)."""

import json
import re
import subprocess
from pathlib import Path

from lessons.book import Lesson

ROOT = Path(__file__).resolve().parent.parent
_SETUP = '''"""Finds Flightdeck, or installs it (on Colab, say). Elsewhere this cell does nothing."""
import importlib.util
import subprocess
import sys
from pathlib import Path

REPOSITORY = "{repository}"  # the address to clone from, where the project is not installed
here = [Path.cwd(), *Path.cwd().parents, Path.cwd() / "flightdeck"]
root = next((folder for folder in here if (folder / "lessons" / "kit").is_dir()), None)
if root is None and importlib.util.find_spec("lessons") is None:
    if not REPOSITORY:
        raise SystemExit("Set REPOSITORY above to the address of the Flightdeck repository, and run this cell again.")
    subprocess.run(["git", "clone", "--depth", "1", REPOSITORY, "flightdeck"], check=True)
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", "-r", "flightdeck/requirements.txt"], check=True)
    root = Path.cwd() / "flightdeck"
if root is not None:
    sys.path.insert(0, str(root))
'''


def notebook(lesson: Lesson, lang: str = "en") -> str:
    """The notebook as JSON, the same for the same lesson; text cells in ``lang``."""
    cells = [_cell(0, "code", _SETUP.format(repository=repository()))]
    for place, cell in enumerate(lesson.cells, start=1):
        source = lesson.text(cell, lang) if cell.is_text else _in_language(cell.source, lang)
        cells.append(_cell(place, "markdown" if cell.is_text else "code", source))
    metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    document = {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def repository() -> str:
    """Where this tree was cloned from, as a public address; empty when that is no such address."""
    try:
        command = ["git", "config", "--get", "remote.origin.url"]
        found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=5).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        return ""
    public = re.fullmatch(r"(?:https://|git@)(?:[^@/]*@)?([\w.-]+)[:/]([\w./-]+)", found)
    return f"https://{public[1]}/{public[2]}" if public else ""


def _cell(place: int, kind: str, source: str) -> dict:
    own = {"outputs": [], "execution_count": None} if kind == "code" else {}
    return {"cell_type": kind, "id": f"cell-{place:03d}", "metadata": {}, "source": source} | own


def _in_language(source: str, lang: str) -> str:
    """The kit speaks the language of the notebook: its first call says which."""
    return source if lang == "en" else re.sub(r'(kit\.begin\("L\d+")\)', rf'\1, language="{lang}")', source)
