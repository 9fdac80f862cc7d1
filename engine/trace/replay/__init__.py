"""A run as one HTML file that replays in any browser: no server, no network, no other file.

Python folds the run into what changes from step to step (``data``) and puts script, style and words beside it.
"""

import json
from collections.abc import Iterable
from html import escape
from pathlib import Path

from engine.trace.events import Record
from engine.trace.replay.data import run_data
from engine.trace.timeline import runs_of

__all__ = ["to_html"]

_HERE = Path(__file__).parent
_SCRIPTS = ("draw.js", "lists.js", "viewer.js")
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
_PAGE = """<!doctype html>
<html lang="{language}"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<title>{title}</title><style>{style}</style></head>
<body><main id="replay"></main>
<script type="application/json" id="data">{data}</script>
<script>"use strict";(() => {{{script}}})();</script></body></html>
"""


def to_html(records: Iterable[Record], language: str = "en") -> str:
    """The page with all runs in ``records``.

    Args:
        language: of the words it opens with, ``en`` or ``zh``; the reader can change it.

    Raises:
        ValueError: there is no step to show.
    """
    runs = [run_data(run) for run in runs_of(records) if run.step_count]
    if not runs:
        raise ValueError("the recording holds no step: there is nothing to replay")
    words = json.loads((_HERE / "words.json").read_text(encoding="utf-8"))
    data = json.dumps({"runs": runs, "words": words, "language": language}, ensure_ascii=False, separators=(",", ":"))
    return _PAGE.format(
        language=escape(language),
        policy=_POLICY,
        title="Flightdeck replay",
        style=(_HERE / "viewer.css").read_text(encoding="utf-8"),
        data=data.replace("<", "\\u003c"),  # a name or a model can then not end the script
        script="".join((_HERE / name).read_text(encoding="utf-8") for name in _SCRIPTS),
    )
