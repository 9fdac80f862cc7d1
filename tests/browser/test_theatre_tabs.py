"""Deep links on a fresh server, several tabs, and an engine that dies."""

import os
import signal

from playwright.sync_api import expect

from tests.browser.theatre_page import hand_over, press, start_demo, step, wait_for_step


def test_a_deep_link_on_a_fresh_server_opens_the_app(visit) -> None:
    """Guards against a page that runs alone after a restart: no navigation, wrong title, foreign pages listed."""
    page = visit("/theatre?step=20")
    page.wait_for_selector(".fd-start")
    expect(page).to_have_title("Flightdeck")
    assert page.get_by_role("link", name="Home").count() == 1
    expect(page.locator(".fd-welcome")).to_contain_text("step 20")
    start_demo(page)
    press(page, "Home")
    press(page, "End")
    assert page.get_by_role("link", name="Theatre").count() == 1
    hand_over(page)


def test_three_tabs_share_one_engine_with_cursors_of_their_own(visit) -> None:
    """Guards a classroom: one tab drives, the others look where they want, nobody builds a second engine."""
    first, second, third = visit("/theatre"), visit("/theatre?step=12"), visit("/theatre?step=15")
    for page in (first, second, third):
        page.wait_for_selector(".fd-stage:not([hidden])")
    wait_for_step(second, 12)
    wait_for_step(third, 15)
    press(second, "ArrowLeft")
    wait_for_step(second, 11)
    assert step(third) == 15
    driving = first.locator(".fd-demo")
    driving.click()
    expect(second.locator(".fd-demo")).to_be_disabled()
    expect(third.locator(".fd-prompt-bar")).to_contain_text("another tab drives")
    first.get_by_role("button", name="hand over").click()
    expect(second.locator(".fd-demo")).to_be_enabled()


def test_a_killed_engine_is_said_and_restarted(visit, server) -> None:
    """Guards against a page that stands still without a word; the record stays readable meanwhile."""
    page = visit("/theatre")
    page.wait_for_selector(".fd-stage:not([hidden])")
    os.kill(server.engine_pid(), signal.SIGKILL)
    expect(page.locator(".fd-status")).to_contain_text("killed", timeout=5000)
    press(page, "Home")
    wait_for_step(page, 1)
    page.get_by_role("button", name="Restart the engine").click()
    expect(page.locator(".fd-status")).to_contain_text("starting")
    expect(page.locator(".fd-status")).to_be_hidden(timeout=60_000)
    hand_over(page)


def test_home_starts_and_stops_the_engine(visit) -> None:
    """Guards the Home page: the engine's state in words, the memory map, and a stop that frees it."""
    page = visit("/")
    page.get_by_text("Running: bundled").wait_for()
    page.get_by_text("Where the memory goes").wait_for()
    page.get_by_role("button", name="Stop and free the memory").click()
    page.get_by_text("not running").wait_for()
    page.get_by_role("button", name="Start", exact=True).click()
    page.get_by_text("Running: bundled").wait_for()
