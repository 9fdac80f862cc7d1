"""The Theatre from the first click to the last answer, in one tab."""

import re

from playwright.sync_api import expect

from tests.browser.theatre_page import (
    CELLS,
    behind,
    drawings,
    hand_over,
    press,
    start_demo,
    step,
    wait_beyond,
    wait_for_step,
)

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
    assert page.locator("[data-mark]").count() == 7
    assert re.search(r"step \d+: \d+ running", page.locator(".fd-summary").inner_text())
    expect(page.locator(".fd-top .fd-badge")).to_have_text("Measured")
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
    expect(page.locator(".fd-top .fd-badge")).to_have_text("Recorded")
    wait_beyond(page, 3)
    page.get_by_text("Self-checks").click()
    expect(page.locator(".fd-check[data-ok=true]").first).to_be_visible()
    assert page.locator(".fd-check[data-ok=false]").count() == 0
    page.get_by_role("button", name="back to the engine").click()
    expect(page.locator(".fd-top .fd-badge")).to_have_text("Measured")


def test_the_log_leads_to_a_step_and_a_link_leads_there_again(visit) -> None:
    """Guards "look at this": a line of the log moves the view, and the copied link opens the same step and request."""
    page = visit("/theatre?step=60", permissions=["clipboard-read", "clipboard-write"])
    wait_for_step(page, 60)
    press(page, "/")
    expect(page.get_by_label("Search for a request")).to_be_focused()
    for other in ("admit", "evict", "finish", "prefix hit"):
        page.locator(".fd-filters button").filter(has_text=other).click()
    line = page.locator(".fd-log-lines .fd-event[data-kind=preempt]").first
    where, who = int(line.get_attribute("data-step")), int(line.get_attribute("data-id"))
    expect(page.locator(".fd-log-lines .fd-event:not([data-kind=preempt])")).to_have_count(0)
    line.click()
    wait_for_step(page, where)
    expect(page.locator(".fd-request h2").first).to_contain_text(f"Request {chr(65 + who)}")
    page.get_by_label("Search for a request").fill(chr(65 + who))
    expect(page.locator(".fd-log .fd-chip")).to_have_count(1)
    page.get_by_role("button", name="copy link").click()
    expect(page.get_by_role("button", name="copied")).to_be_visible()
    link = page.evaluate("navigator.clipboard.readText()")
    again = visit(link[link.index("/theatre") :])
    wait_for_step(again, where)
    expect(again.locator(".fd-request h2").first).to_contain_text(f"Request {chr(65 + who)}")


def test_a_linked_recording_its_tree_and_what_if(visit) -> None:
    """Guards the microscope on a recording: tree, questions with both sides, and the way into the simulated run."""
    page = visit("/theatre?recording=demo.fdtrace&step=96&request=K")
    wait_for_step(page, 96)
    expect(page.locator(".fd-request h2").first).to_contain_text("Request K")
    before = drawings(page)[1]
    page.get_by_text("Prefix tree").click()
    page.locator(".fd-node").nth(1).click()
    expect(page.locator(".fd-node").nth(1)).to_have_attribute("aria-pressed", "true")
    assert drawings(page)[1] != before
    page.get_by_text("What if?").click()
    page.get_by_role("button", name="10 % larger").click()
    expect(page.locator(".fd-answer th .fd-badge")).to_have_text(["Recorded", "Simulated", "Simulated"])
    expect(page.locator(".fd-parting")).to_contain_text("step 96")
    page.locator(".fd-parting").get_by_role("button", name="watch").last.click()
    expect(page.locator(".fd-top .fd-badge")).to_have_text("Simulated")
    wait_for_step(page, 96)
    expect(page.locator(".fd-recording")).to_contain_text("10 % larger")


def test_the_replay_page_opens_alone_and_its_slider_moves_the_picture(visit) -> None:
    """Guards the file that a class takes home: no server, no error, keys and slider, both languages."""
    page = visit("/theatre?recording=demo.fdtrace&step=5")
    wait_for_step(page, 5)
    with page.expect_download() as saved:
        page.get_by_text("save as page").click()
    page.goto(saved.value.path().rename(saved.value.path().with_suffix(".html")).as_uri())
    expect(page.locator(".badge")).to_have_text("Recorded")
    seen = [page.evaluate(CELLS.replace(".fd canvas", "canvas"))]
    page.get_by_label("Step shown").fill("95")
    expect(page.locator(".place")).to_contain_text("step 96 of 388")
    expect(page.locator(".events [data-now=true]")).to_contain_text("preempted K")
    seen.append(page.evaluate(CELLS.replace(".fd canvas", "canvas")))
    assert all(one != other for one, other in zip(*seen))
    page.keyboard.press("Shift+ArrowRight")
    expect(page.locator(".place")).to_contain_text("step 106 of 388")
    page.get_by_role("button", name="中文").click()
    expect(page.locator(".place")).to_contain_text("第 106 步")


def test_light_dark_and_chinese(visit) -> None:
    """Guards themes and languages: colours follow the theme, and no English sentence is left over."""
    dark = visit("/theatre?lang=zh", color_scheme="dark", reduced_motion="reduce")
    dark.wait_for_selector(".fd-stage:not([hidden])")
    expect(dark.locator(".fd")).to_have_attribute("data-theme", "dark")
    expect(dark.locator(".fd-queues h2").first).to_contain_text("等待")
    light = visit("/theatre", color_scheme="light")
    light.wait_for_selector(".fd-stage:not([hidden])")
    expect(light.locator(".fd")).to_have_attribute("data-theme", "light")


def test_H_05_memory_of_a_tab_stays_flat(visit) -> None:
    """Guards a class that runs for an hour: frames come and go, nodes stay as many."""
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
