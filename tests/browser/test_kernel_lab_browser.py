"""The Kernel Lab in a real browser: measure, step with the keyboard, the real kernel, PTX; both themes."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

Open = Callable[..., Page]


@pytest.fixture(scope="module", autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A data folder of its own for the server, which starts after this: the reader's runs are not touched."""
    before, made = os.environ.get("XDG_DATA_HOME"), tmp_path_factory.mktemp("data")
    os.environ["XDG_DATA_HOME"] = str(made)
    yield made
    os.environ.pop("XDG_DATA_HOME") if before is None else os.environ.update(XDG_DATA_HOME=before)


def test_measuring_this_machine_fills_the_figures(visit: Open, home: Path) -> None:
    """Guards the whole way: button, words within 2 s, both figures, the badge, a file in the reader's folder."""
    page = visit("/kernel_lab")
    page.get_by_role("button", name="Measure").first.click()
    expect(page.get_by_test_id("stProgress")).to_be_visible(timeout=5_000)
    expect(page.get_by_test_id("stPlotlyChart")).to_have_count(2, timeout=120_000)
    expect(page.locator(".fd-provenance").first).to_contain_text("Measured", timeout=30_000)
    expect(page.get_by_role("button", name="again")).to_be_enabled(timeout=30_000)
    assert list((home / "flightdeck" / "kernels").glob("*.json"))


def test_the_stepper_follows_the_keyboard(visit: Open) -> None:
    """Guards the keys, and that the highlight of a rescale is more than a colour."""
    page = visit("/kernel_lab?part=tiles")
    expect(page.locator(".kl td.now")).to_have_count(16)
    page.locator("h1").click()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_text("tile 2 of 4")).to_be_visible()
    expect(page.locator(".kl td.shrunk").filter(has_text="↻")).to_have_count(4)
    page.keyboard.press("ArrowLeft")
    expect(page.get_by_text("tile 1 of 4")).to_be_visible()
    expect(page.locator(".kl td.shrunk")).to_have_count(0)


def test_the_real_kernel_agrees(visit: Open) -> None:
    """Guards the child process behind the button."""
    page = visit("/kernel_lab?part=tiles")
    page.get_by_role("button", name="Run the real Triton kernel").click()
    expect(page.get_by_text("It agrees")).to_be_visible(timeout=60_000)


def test_ptx_appears_on_request(visit: Open) -> None:
    """Guards the compiler behind the button, and folded source that opens."""
    page = visit("/kernel_lab?part=source", color_scheme="dark")
    page.get_by_text("2 · The Triton kernel").click()
    expect(page.locator("details[open]")).to_contain_text("_rmsnorm_kernel")
    page.get_by_role("button", name="Compile to PTX").click()
    expect(page.get_by_text(".target sm_90").first).to_be_visible(timeout=60_000)
