"""Guards the catalogue: a missing sentence shows its id or ends the page; a language that lags behind shows English."""

import json
import re
from pathlib import Path

import pytest
from test_pages_sources import one_long_answer

from engine.errors import OutOfMemory
from engine.spawn import death
from engine.trace.checks import checks
from engine.trace.event_log import GROUPS
from engine.trace.events import Reason
from engine.trace.frame import POLICIES
from engine.trace.views import STATE_NAMES
from engine.workload.questions import QUESTIONS
from pages.parts.engine_words import said_in
from pages.parts.words import LANGUAGES, catalogue, sentences

PAGES = Path(__file__).resolve().parents[2] / "pages"
FIELD = re.compile(r"\{(\w+)\}")
BY_NAME = {  # ids that the canvas builds from a value of the frame
    "reason": [reason.name.lower() for reason in Reason if reason < Reason.TOO_LONG] + ["behind_head"],
    "state": STATE_NAMES,
    "cause": ("length", "eos", "stop", "abort", "error", "refused"),
    "event": ("preempt", "evict", "admit", "resume", "hit", "finish", "abort", "refuse", "pause", "resume_cmd"),
    "badge": ("Measured", "Computed", "Simulated", "Recorded", "Schematic"),
    "why": [reason.name.lower() for reason in Reason if Reason.NONE < reason < Reason.TOO_LONG],
    "log": GROUPS,
    "policy": POLICIES,
    "whatif": (*(f"ask_{question}" for question in QUESTIONS), "before", "after"),
    "recording": [f"simulated_{question}" for question in QUESTIONS],
    "request": ("in_prefill", "in_decode", "in_padded", "in_sat_out"),
    "tokens": ("prefill", "decode", "padded"),
    "check": [check.id for check in checks(one_long_answer(3))],
    "pool": ("cell_free", "cell_used", "cell_cached", "cell_padded", "state_0", "state_1", "state_2", "state_3"),
}


def _used() -> set[str]:
    found = set()
    for path in [*PAGES.rglob("*.py"), *PAGES.rglob("*.js")]:
        found |= set(re.findall(r'\bt\(\s*"([a-z_]+\.[\w.]+)"', path.read_text(encoding="utf-8")))
    return found


def test_every_sentence_that_code_names_exists() -> None:
    """Guards against an id that was renamed in the catalogue only."""
    assert not _used() - catalogue().keys()


@pytest.mark.parametrize("group", BY_NAME)
def test_every_value_of_a_frame_has_its_sentence(group: str) -> None:
    """Guards against a new reason, cause or event that other languages cannot say."""
    assert not {f"{group}.{name}" for name in BY_NAME[group]} - catalogue().keys()


def test_both_languages_say_the_same() -> None:
    """Guards against an empty translation and against one that forgets a number."""
    for name, both in catalogue().items():
        assert len(both) == len(LANGUAGES) and all(both), name
        assert set(FIELD.findall(both[0])) == set(FIELD.findall(both[1])), name


def test_chinese_is_chinese() -> None:
    """Guards against a copied English sentence; names, symbols and units may stay."""
    same = {name for name, text in sentences("zh").items() if text == sentences("en")[name]}
    assert all(len(sentences("en")[name]) <= 12 for name in same), same


@pytest.mark.parametrize(
    ("english", "chinese"),
    [
        ("loading weights", "正在载入权重"),
        (
            "Next change expected when K finishes: 9 blocks, at most 1 step.",
            "预计 K 完成时变化：释放 9 块，最多 1 步。",
        ),
        (death(-9), "引擎进程被 SIGKILL 终止（通常是系统内存不足）"),
        (str(OutOfMemory("pool_blocks", "at least 3 blocks")), "内存不足：请将 pool_blocks 降低 至少 3 块"),
        ("a sentence that nobody translated", "a sentence that nobody translated"),
    ],
)
def test_what_the_engine_says_is_said_in_chinese(english: str, chinese: str) -> None:
    """Guards the engine's own sentences: progress, forecasts and failures, fields inside fields included."""
    assert said_in("zh", english) == chinese and said_in("en", english) == english


def test_every_progress_of_the_engine_has_its_sentence() -> None:
    """Guards against a new stage of loading that other languages cannot say."""
    sources = [*(PAGES.parent / "engine" / "worker").glob("*.py"), PAGES.parent / "engine" / "loading.py"]
    texts = {text for path in sources for text in re.findall(r'progress\("([^"]+)"', path.read_text())}
    assert texts and all(said_in("zh", text) != text for text in texts), texts


def test_catalogue_files_are_plain() -> None:
    """Guards the format: an id once, two strings each."""
    for path in (PAGES / "parts" / "catalogue").glob("*.json"):
        pairs = json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=list)
        names = [name for name, _ in pairs]
        assert len(names) == len(set(names)), path.name
