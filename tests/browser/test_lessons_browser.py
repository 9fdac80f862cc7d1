"""The lessons in a real browser: keyboard, lock, a real experiment, an exercise, projector, grey, small screen."""

import io
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from PIL import Image
from playwright.sync_api import Locator, Page, expect

Open = Callable[..., Page]
IDLE = '[data-testid="stApp"][data-test-script-state="notRunning"]'


@pytest.fixture(scope="module", autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A learner's folder of its own for the server, which starts after this."""
    before, made = os.environ.get("XDG_DATA_HOME"), tmp_path_factory.mktemp("data")
    os.environ["XDG_DATA_HOME"] = str(made)
    yield made
    os.environ.pop("XDG_DATA_HOME") if before is None else os.environ.update(XDG_DATA_HOME=before)


def _settled(page: Page) -> Page:
    page.wait_for_selector(IDLE)
    return page


def _heading(page: Page, text: str) -> None:
    expect(page.locator(".st-key-lesson_cells h2").first).to_have_text(text)


def test_a_lesson_is_walked_by_keyboard_and_run_on_this_machine(visit: Open, home: Path) -> None:
    """Guards the whole way: list, arrows, Enter locks, a locked step is empty, a real experiment with its bar, the
    comparison, and all of it still there in a new tab."""
    page = visit("/lessons")
    page.locator(".st-key-lesson_open_L8 button").click()
    _heading(page, "Eight seats and a queue")
    page.locator(".st-key-lesson_bar h1").click()
    page.keyboard.press("ArrowRight")
    _heading(page, "Everybody orders the same")
    assert "cell=2" in page.url
    page.locator(".st-key-lesson_outline").get_by_role("button", name="Theory against the clock").click()
    expect(page.get_by_text("opens once step 2 is settled")).to_be_visible()
    assert page.get_by_text("waits for a neighbour").count() == 0
    page.get_by_role("button", name="Go there").click()
    _heading(page, "Everybody orders the same")
    page.locator(".st-key-lesson_bar h1").click()
    page.keyboard.press("Enter")
    expect(page.get_by_text("(locked)")).to_be_visible()
    page.keyboard.press("ArrowRight")
    _heading(page, "Run it")
    page.locator(".st-key-lesson_experiment_equal").get_by_text("16", exact=True).click()
    _settled(page).get_by_role("button", name="Run on my").click()
    expect(page.get_by_test_id("stProgress")).to_be_visible(timeout=10_000)
    expect(page.locator(".fd-provenance").first).to_contain_text("Measured", timeout=240_000)
    page.get_by_role("button", name="Next").click()
    expect(page.locator(".ls-table tbody tr")).to_have_count(1)
    assert list((home / "flightdeck" / "results").glob("L8.equal.json.gz"))
    other = visit("/lessons?lesson=L8&cell=equal_compare")
    expect(other.locator(".ls-table tbody tr")).to_have_count(1)


def test_every_control_has_a_name(visit: Open) -> None:
    """Guards readers who listen: no button, slider or field without a name."""
    page = visit("/lessons?lesson=L8&cell=2&seed=3")
    _heading(page, "Everybody orders the same")
    nameless = page.evaluate(
        """() => [...document.querySelectorAll("button, input, textarea, [role=slider]")].filter((one) =>
          one.offsetParent && !(one.innerText || one.getAttribute("aria-label") || one.getAttribute("aria-labelledby")
            || one.title || one.closest("label"))).map((one) => one.outerHTML.slice(0, 160))"""
    )
    assert not nameless, nameless


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_place_in_the_outline_is_seen_without_colour(visit: Open, scheme: str) -> None:
    """Guards grey projectors: the step in sight stands out by lightness; kinds are icons and words."""
    page = visit("/lessons?lesson=L8&cell=2&seed=4", color_scheme=scheme)
    _heading(page, "Everybody orders the same")
    here, other = (page.locator(f".st-key-lesson_step_{at} button").first for at in (1, 2))
    assert abs(_lightness(here) - _lightness(other)) > 40
    expect(page.locator(".ls-kind")).to_have_text("predict")


def test_a_projector_gets_larger_type_and_no_names(visit: Open) -> None:
    """Guards presenter mode: 1.4 times the size, the step counter in sight, nothing cut off at the side."""
    page = visit("/lessons?lesson=L8&cell=2&seed=5&present=1")
    _heading(page, "Everybody orders the same")
    page.wait_for_function("parseFloat(getComputedStyle(document.documentElement).fontSize) > 22")
    expect(page.locator(".ls-count")).to_have_text("2 / 17")
    assert _overflow(page) <= 0
    page.get_by_role("button", name="Lock my prediction").click()
    expect(page.get_by_text("Locked.")).to_be_visible()


@pytest.mark.parametrize("width", [1366, 1920, 820])
def test_nothing_is_cut_off(visit: Open, width: int) -> None:
    """Guards layouts: three columns, two, or one; never a scroll bar at the bottom."""
    page = visit("/lessons?lesson=L8&cell=1")
    page.set_viewport_size({"width": width, "height": 900})
    _heading(page, "Eight seats and a queue")
    columns = {1920: 3, 1366: 2, 820: 1}[width]
    body = "getComputedStyle(document.querySelector('.st-key-lesson_body'))"
    page.wait_for_function(f"{body}.display === 'grid' && {body}.gridTemplateColumns.split(' ').length === {columns}")
    assert _overflow(page) <= 0


def _lightness(one: Locator) -> float:
    """Mean lightness of an element's picture, 0 to 255."""
    grey = Image.open(io.BytesIO(one.screenshot())).convert("L")
    pixels = list(grey.getdata())
    return sum(pixels) / len(pixels)


def _overflow(page: Page) -> float:
    return page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
