"""The Arena in a real browser: it plays at once, stands still when asked, and runs a race behind a prediction."""

from collections.abc import Callable

from playwright.sync_api import Page, expect

Open = Callable[..., Page]
NAMES = ["static, padded", "static, shrinking", "dynamic", "in-flight"]


def _ended(page: Page, patience_s: float = 60) -> None:
    page.wait_for_selector('.ar[data-phase="done"]', timeout=patience_s * 1000)


def _painted(page: Page) -> list[int]:
    """Painted pixels of each scheduler's lanes: they fill in as the race goes on."""
    return page.evaluate(
        """() => [...document.querySelectorAll(".ar-bands canvas")].map((canvas) => {
          const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
          return pixels.filter((value, place) => place % 4 === 3 && value > 0).length;
        })"""
    )


def test_the_recorded_race_plays_and_ends_in_the_full_picture(visit: Open) -> None:
    """Guards the first minute: lanes fill by themselves; then gain, factors and latency appear."""
    page = visit("/arena")
    expect(page.locator(".ar-band b")).to_have_text(NAMES)
    expect(page.locator(".ar-lanes .ar-badge")).to_have_text("Recorded")
    page.wait_for_timeout(700)
    early = _painted(page)
    expect(page.locator('.ar-cell[data-name="gain"] .ar-value')).to_have_text("racing …")
    _ended(page)
    assert all(before < after for before, after in zip(early, _painted(page)))
    expect(page.locator('.ar-cell[data-name="gain"] .ar-value')).to_contain_text("x")
    expect(page.locator(".ar-factor[data-name=drain] b").last).to_be_visible()
    assert page.locator(".ar-ranks").all_inner_texts()[0]


def test_without_motion_the_end_is_shown_at_once(visit: Open) -> None:
    """Guards prefers-reduced-motion: nothing moves by itself, and the race can still be dragged through."""
    page = visit("/arena", reduced_motion="reduce")
    _ended(page, 20)
    full = _painted(page)
    scrubber = page.get_by_label("Time of the race")
    scrubber.focus()
    scrubber.press("Home")
    page.wait_for_timeout(300)
    assert all(at_start < at_end for at_start, at_end in zip(_painted(page), full))


def test_pointing_at_a_request_finds_it_everywhere(visit: Open) -> None:
    """Guards the tooltip, and that the same request stands out in all four lanes."""
    page = visit("/arena", reduced_motion="reduce")
    _ended(page, 20)
    page.locator(".ar-bands canvas").first.hover(position={"x": 40, "y": 6})
    expect(page.locator(".ar-tip")).to_contain_text("request")


def test_every_figure_opens_a_table(visit: Open) -> None:
    """Guards accessibility: each figure has its numbers as a table and a name for those who do not see it."""
    page = visit("/arena", reduced_motion="reduce")
    _ended(page, 20)
    for summary in page.locator(".ar-details summary").all():
        summary.click()
    assert page.locator(".ar-details table:visible").count() == 3
    names = page.locator('.ar canvas[role=img]:not([aria-hidden="true"])').evaluate_all(
        "all => all.map((one) => one.getAttribute('aria-label'))"
    )
    assert names and all(names)


def test_home_opens_with_the_race_playing(visit: Open) -> None:
    """Guards the first ten seconds: the recorded race fills by itself, and two buttons lead on."""
    page = visit("/")
    expect(page.locator(".ar-band b")).to_have_text(["static, padded", "in-flight"])
    expect(page.locator(".ar-lanes .ar-badge")).to_have_text("Recorded")
    _ended(page)
    expect(page.locator('.ar-cell[data-name="gain"] .ar-value')).to_contain_text("x")
    page.get_by_role("button", name="Watch the engine think").click()
    expect(page.locator(".fd-start")).to_be_visible()


def test_my_own_race_runs_behind_the_lock(visit: Open) -> None:
    """Guards the whole way: run, words and lanes without a remount, hidden answer, lock, result with its badge."""
    page = visit("/arena")
    page.get_by_text("24", exact=True).click()
    expect(page.locator('.ar-bands [data-key="in_flight"]')).to_be_visible()
    page.wait_for_selector('[data-testid="stApp"][data-test-script-state="notRunning"]')  # the choice has been drawn
    page.evaluate("window.firstBand = document.querySelector('.ar-band')")
    page.get_by_role("button", name="Run it on my").click()
    page.wait_for_selector(".ar-progress:not([hidden])")
    veil = page.locator('[data-key="in_flight"] .ar-veil')
    expect(veil).to_contain_text("hidden until you lock", timeout=10_000)
    page.wait_for_selector('[data-key="static"][data-state="live"]', timeout=180_000)
    assert page.evaluate("window.firstBand === document.querySelector('.ar-band')")
    assert page.locator(".ar-cell:visible").count() == 0
    page.get_by_role("button", name="Lock").click()
    page.wait_for_selector('.ar-cell[data-name="gain"]:visible', timeout=240_000)
    _ended(page)
    expect(page.locator(".ar-lanes .ar-badge")).to_have_text("Measured")
    expect(page.get_by_text("You predicted")).to_contain_text("measured")
    assert page.evaluate("window.firstBand === document.querySelector('.ar-band')")
