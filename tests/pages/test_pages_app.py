"""Each page as a script, without a browser (bug reports H-03, H-04, H-09)."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from pages.parts.model_picker import sizes
from pages.parts.session import session

PAGES = Path(__file__).resolve().parents[2] / "pages"
MAIN = str(PAGES / "main.py")
NAMES = sorted(path.stem for path in PAGES.glob("[a-z]*.py") if path.stem != "main")


@pytest.fixture
def app() -> Iterator[AppTest]:
    """The app on its first page, with an engine that was never started."""
    yield AppTest.from_file(MAIN, default_timeout=30).run()
    session().stop()


def _open(app: AppTest, name: str) -> AppTest:
    return app.switch_page(str(PAGES / f"{name}.py")).run()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("language", ["en", "zh"])
def test_H_04_H_09_pages_open_with_an_empty_engine_and_without_a_gpu(app: AppTest, name: str, language: str) -> None:
    """Guards against ids that clash when everything is empty, and against pages that need a driver."""
    app.query_params["lang"] = language
    assert not _open(app, name).exception


def test_home_says_why_there_is_no_gpu(app: AppTest) -> None:
    """Guards against a silent empty device card (or shows the card where there is one)."""
    words = " ".join(caption.value for caption in app.caption)
    assert "No NVIDIA GPU to show" in words or "driver" in words


def test_H_03_choices_survive_another_page(app: AppTest) -> None:
    """Guards against settings that vanish because their widgets were not drawn for a moment."""
    app.number_input(key="block_size").set_value(8).run()
    app.radio(key="source").set_value("random").run()
    app = _open(_open(app, "theatre"), "home")
    assert app.number_input(key="block_size").value == 8
    assert app.radio(key="source").value == "random" and app.selectbox(key="shape").value == "tiny"


def test_a_model_without_a_name_cannot_be_started(app: AppTest) -> None:
    """Guards against starting an engine with an empty path."""
    app.radio(key="source").set_value("folder").run()
    assert app.button(key="engine_start").disabled
    app.text_input(key="folder").set_value("/some/folder").run()
    assert not app.button(key="engine_start").disabled


def test_sizes_follow_the_pool_and_the_device() -> None:
    """Guards the defaults of the design: a classroom pool stays small on any device."""
    assert sizes(classroom=True, gpu=True) == sizes(classroom=False, gpu=False) == (8, 64, 0)
    assert sizes(classroom=False, gpu=True) == (256, 8192, 1)
