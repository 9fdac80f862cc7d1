"""Sources and folded frames, read for faults that only show after minutes (bug reports H-01, H-02, H-04, H-05)."""

import ast
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.trace.events import Admit, Apply, Arrive, Record, Run, Step
from engine.trace.frame import frame
from engine.trace.timeline import Timeline

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "pages").rglob("*.py"))
KEYED = {
    "button",
    "checkbox",
    "download_button",
    "file_uploader",
    "multiselect",
    "number_input",
    "pills",
    "plotly_chart",
    "radio",
    "segmented_control",
    "select_slider",
    "selectbox",
    "slider",
    "text_area",
    "text_input",
    "toggle",
}


def _calls(tree: ast.AST) -> Iterator[ast.Call]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute))


def test_H_01_engine_and_kernels_import_no_ui_library() -> None:
    """Guards against page functions called from engine threads: they lack the script's context."""
    for path in [*(ROOT / "engine").rglob("*.py"), *(ROOT / "kernels").rglob("*.py")]:
        assert "streamlit" not in path.read_text(encoding="utf-8"), path


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_H_02_no_page_touches_the_sidebar(path: Path) -> None:
    """Guards against sidebar calls inside fragments; the pages have no sidebar at all."""
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    assert "sidebar" not in {node.attr for node in nodes if isinstance(node, ast.Attribute)}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_H_04_every_widget_has_a_key(path: Path) -> None:
    """Guards against two equal widgets or charts on a page, whose ids come from their content."""
    for call in _calls(ast.parse(path.read_text(encoding="utf-8"))):
        if call.func.attr in KEYED:
            assert "key" in {word.arg for word in call.keywords}, f"line {call.lineno}"


def test_no_page_loops_for_ever() -> None:
    """Guards against a script that never ends: it would hold its thread and its figures."""
    for path in PAGES:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        loops = [node for node in ast.walk(tree) if isinstance(node, ast.While)]
        assert not [loop for loop in loops if isinstance(loop.test, ast.Constant)], path


def test_the_canvas_asks_no_other_host() -> None:
    """Guards the promise of no outside request, at the source."""
    for path in (ROOT / "pages" / "parts" / "web").iterdir():
        text = path.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        assert "http:" not in text and "https:" not in text and "//cdn" not in text, path.name


def test_H_05_a_frame_does_not_grow_with_the_run() -> None:
    """Guards browser and server memory: after 10,000 steps a frame is as large as after 1,000."""
    timeline = one_long_answer(10_000)
    early, late = (len(json.dumps(frame(timeline, timeline.seq_of_step(step)))) for step in (1_000, 10_000))
    assert late <= 1.2 * early


def one_long_answer(steps: int) -> Timeline:
    """A run of one request that decodes ``steps`` tokens in blocks of 256."""
    size, pool = 256, 64
    limits = {"block_size": size, "pool_blocks": pool, "max_num_seqs": 1, "token_budget": 8, "watermark": 0.0}
    info = {"config": {"scheduling": limits, "pool_blocks": pool}, "model": "none", "device": "none"}
    events = [Run(json.dumps(info).encode()), Arrive(0, steps + 1, 0, 0, b"long", [1]), Admit(0, 0, 0, 0, 0, [])]
    for step in range(1, steps + 1):
        fresh = [(step - 1) // size + 1] if (step - 1) % size == 0 else []
        rows = [0] * len(fresh)
        first = {"chunk_rows": [0], "chunk_starts": [0], "chunk_tokens": [1], "chunk_lasts": [1]} if step == 1 else {}
        joined = [0] if step == 2 else []
        events.append(Step(8, 1, pool, 0, 0, joined=joined, block_rows=rows, block_ids=fresh, **first))
        events.append(Apply(step, [0], [7]))
    timeline, number = Timeline(), 0
    for seq, event in enumerate(events):
        number += isinstance(event, Step)
        timeline.append(Record(seq, seq * 1_000_000, number, event))
    return timeline
