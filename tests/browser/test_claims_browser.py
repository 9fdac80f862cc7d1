"""The Claim Auditor in a real browser: first paint, a link, the keyboard, a measurement, both themes."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

Open = Callable[..., Page]


@pytest.fixture(scope="module", autouse=True)
def data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A data folder of its own for the server, which starts after this: the reader's findings are not touched."""
    before, made = os.environ.get("XDG_DATA_HOME"), tmp_path_factory.mktemp("data")
    os.environ["XDG_DATA_HOME"] = str(made)
    yield made
    os.environ.pop("XDG_DATA_HOME") if before is None else os.environ.update(XDG_DATA_HOME=before)


def test_cards_filters_and_links(visit: Open) -> None:
    """Guards the page as a reader uses it: cards, a filter, a page further with the keyboard, a link to one claim."""
    page = visit("/claims")
    expect(page.locator(".ca-claim")).to_have_count(12, timeout=30_000)
    page.locator("h1").click()
    page.keyboard.press("Shift+ArrowRight")
    expect(page.get_by_text("page 2 of 16")).to_be_visible()
    page.get_by_role("button", name="✗ wrong 30").click()
    expect(page.get_by_text("of 3, 30 claims")).to_be_visible()
    expect(page.locator(".ca-head .ca-WRONG")).to_have_count(12)
    page.locator(".ca-head a").first.click()
    expect(page.locator(".ca-claim")).to_have_count(1, timeout=30_000)


def test_a_measurement_answers_a_claim(visit: Open, data: Path) -> None:
    """Guards the button: words within 5 s, the finding on the card, a file in the reader's folder."""
    page = visit("/claims?claim=S0-54", color_scheme="dark")
    page.get_by_role("button", name="Measure here").click()
    expect(page.get_by_test_id("stProgress")).to_be_visible(timeout=5_000)
    expect(page.locator(".ca-found .fd-provenance")).to_contain_text("Measured", timeout=120_000)
    assert list((data / "flightdeck" / "claims").glob("*.json"))


def test_the_estimators_draw(visit: Open) -> None:
    """Guards the second part, in Chinese and in the dark."""
    page = visit("/claims?part=estimators&lang=zh", color_scheme="dark")
    expect(page.get_by_test_id("stPlotlyChart")).to_have_count(2, timeout=30_000)
    expect(page.get_by_text("384")).to_be_visible()
