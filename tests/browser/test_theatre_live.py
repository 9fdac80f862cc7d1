"""The Theatre from the first click to the last answer, in one tab."""

import re

from playwright.sync_api import expect

from tests.browser.theatre_page import behind, drawings, hand_over, press, start_demo, step, wait_beyond, wait_for_step

MARK = """() => {
  const kept = document.querySelectorAll('.fd canvas, .fd-waiting, .fd-text');
  kept.forEach((node, at) => (node.dataset.mark = at));
}"""


def test_first_run_moves_and_updates_in_place(visit) -> None:
    """Guards the promise of the first minute, and against the flicker of elements that are made anew."""
    page = visit("/theatre")
    start_demo(page)
    page.evaluate(MARK)
    first, before = step(page), drawings(page)
    wait_beyond(page, first + 5)
    assert all(one != other for one, other in zip(drawings(page)[:3], before[:3]))
    page.wait_for_selector(".fd-waiting .fd-why")
    for kind in ("hit", "evict", "preempt"):
        page.wait_for_selector(f".fd-event[data-kind={kind}]")
    expect(page.locator(".fd-preemption")).to_contain_text("tokens to recompute")
    expect(page.locator(".fd-behind")).to_have_text("live, in slow motion")
    assert page.locator("[data-mark]").count() == 6
    assert re.search(r"step \d+: \d+ running", page.locator(".fd-summary").inner_text())
    expect(page.locator(".fd-badge")).to_have_text("Measured")
    hand_over(page)


def test_pause_step_back_and_live(visit) -> None:
    """Guards the two cursors: pause and step move the engine, back and scrub only the view."""
    page = visit("/theatre")
    page.wait_for_selector(".fd-stage:not([hidden])")
    before = step(page)
    page.locator(".fd-demo").click()
    wait_beyond(page, before + 20)
    page.locator(".fd-pause").click()
    expect(page.locator(".fd-behind")).to_have_text("engine paused")
    page.wait_for_timeout(300)
    last = step(page)
    press(page, "ArrowLeft")
    wait_for_step(page, last - 1)
    assert behind(page) == "1 steps behind live"
    press(page, "Shift+ArrowLeft")
    wait_for_step(page, last - 11)
    press(page, "ArrowRight")
    wait_for_step(page, last - 10)
    press(page, "l")
    wait_for_step(page, last)
    page.locator(".fd-forward").click()
    wait_for_step(page, last + 1)
    press(page, "Home")
    wait_for_step(page, 1)
    press(page, "End")
    wait_for_step(page, last + 1)
    press(page, "l")
    press(page, "Space")
    wait_beyond(page, last + 3)
    page.reload()
    page.wait_for_selector(".fd-stage:not([hidden])")
    expect(page.locator(".fd-demo")).to_be_enabled(timeout=10_000)


def test_the_same_step_is_drawn_the_same_forwards_and_backwards(visit) -> None:
    """Guards the fold in the page: a frame must not depend on what was shown before it."""
    page = visit("/theatre?step=60")
    wait_for_step(page, 60)
    page.wait_for_timeout(300)
    forwards = drawings(page)[:3]
    press(page, "End")
    page.wait_for_timeout(300)
    press(page, "Home")
    wait_for_step(page, 1)
    page.locator(".fd-scrub input").fill("60")
    wait_for_step(page, 60)
    page.wait_for_timeout(300)
    assert drawings(page)[:3] == forwards


def test_keys_and_help_have_names(visit) -> None:
    """Guards readers without a mouse: every button has a name, ? opens the list of keys."""
    page = visit("/theatre")
    page.wait_for_selector(".fd-stage:not([hidden])")
    press(page, "?")
    expect(page.locator(".fd-dialog")).to_be_visible()
    press(page, "?")
    expect(page.locator(".fd-dialog")).to_be_hidden()
    for button in page.locator(".fd button:visible").all():
        assert button.inner_text().strip() or button.get_attribute("aria-label")
    names = [canvas.get_attribute("aria-label") for canvas in page.locator(".fd canvas[role=img]").all()]
    assert all(names) and page.locator("[aria-live=polite]").count() == 1


def test_a_block_leads_to_its_owner(visit) -> None:
    """Guards the link between pool and request panel; the tables say the same as the drawing."""
    page = visit("/theatre?step=40")
    wait_for_step(page, 40)
    page.locator(".fd-running .fd-req").nth(2).click()
    expect(page.locator(".fd-running .fd-req").nth(2)).to_have_attribute("aria-pressed", "true")
    label = page.locator(".fd-running .fd-req b").nth(2).inner_text()
    expect(page.locator(".fd-request h2").first).to_contain_text(f"Request {label}")
    assert page.locator(".fd-table .fd-block").count() >= 2
    page.get_by_text("The same in words and tables").click()
    expect(page.locator(".fd-tables table")).to_have_count(3)


def test_a_recording_replays_and_the_engine_is_left_alone(visit) -> None:
    """Guards "save, open, come back": the badge says Recorded, the checks are told, the engine goes on meanwhile."""
    page = visit("/theatre")
    page.wait_for_selector(".fd-stage:not([hidden])")
    with page.expect_download() as saved:
        page.get_by_text("save recording").click()
    page.locator(".fd-prompt-bar").get_by_role("button", name="open recording").click()
    page.get_by_label("A file of your own").set_input_files(saved.value.path())
    page.wait_for_selector(".fd-recording:not([hidden])")
    expect(page.locator(".fd-badge")).to_have_text("Recorded")
    wait_beyond(page, 3)
    page.get_by_text("Self-checks").click()
    expect(page.locator(".fd-check[data-ok=true]").first).to_be_visible()
    assert page.locator(".fd-check[data-ok=false]").count() == 0
    page.get_by_role("button", name="back to the engine").click()
    expect(page.locator(".fd-badge")).to_have_text("Measured")


def test_light_dark_and_chinese(visit) -> None:
    """Guards themes and languages: colours follow the theme, and no English sentence is left over."""
    dark = visit("/theatre?lang=zh", color_scheme="dark", reduced_motion="reduce")
    dark.wait_for_selector(".fd-stage:not([hidden])")
    expect(dark.locator(".fd")).to_have_attribute("data-theme", "dark")
    expect(dark.locator(".fd-queues h2").first).to_contain_text("等待")
    light = visit("/theatre", color_scheme="light")
    light.wait_for_selector(".fd-stage:not([hidden])")
    expect(light.locator(".fd")).to_have_attribute("data-theme", "light")


def test_memory_of_a_tab_stays_flat(visit) -> None:
    """Guards a class that runs for an hour: frames come and go, nodes stay as many (bug report H-05)."""
    page = visit("/theatre?step=30")
    wait_for_step(page, 30)
    count = "() => document.querySelectorAll('*').length"
    before = page.evaluate(count)
    for number in [*range(31, 130), 30]:
        page.locator(".fd-scrub input").fill(str(number))
    wait_for_step(page, 30)
    page.wait_for_timeout(300)
    assert abs(page.evaluate(count) - before) <= 5


def test_H_01_H_06_the_log_is_clean(visit, server) -> None:
    """Guards against warning floods: page calls from threads, and the file watcher inside torch."""
    page = visit("/")
    page.wait_for_selector("[data-testid=stHeading]")
    page.wait_for_timeout(2500)
    log = server.log.read_text()
    for fault in ("missing ScriptRunContext", "torch.classes", "Traceback"):
        assert fault not in log, log[-2000:]
