"""What the tests read from the Theatre in a tab."""

import re

from playwright.sync_api import Page, expect

CELLS = """() => [...document.querySelectorAll('.fd canvas')].map((canvas) => {
  const pixels = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
  return pixels.reduce((sum, value) => (sum * 31 + value) % 1000003, 0);
})"""


def step(page: Page) -> int:
    """The step that the tab shows."""
    return int(re.sub(r"\D", "", page.locator(".fd-step").inner_text()))


def behind(page: Page) -> str:
    """What the chip beside the scrubber says."""
    return page.locator(".fd-behind").inner_text()


def wait_for_step(page: Page, number: int) -> None:
    """Wait until the tab shows exactly that step."""
    expect(page.locator(".fd-step")).to_have_text(f"step {number:,}")


def wait_beyond(page: Page, number: int) -> None:
    """Wait until the tab shows a later step."""
    page.wait_for_function(
        "(number) => Number(document.querySelector('.fd-step').textContent.replace(/\\D/g, '')) > number", arg=number
    )


def start_demo(page: Page) -> None:
    """Click the one button of the first visit and wait for the first frame."""
    page.locator(".fd-start:not([disabled])").click()
    page.wait_for_selector(".fd-stage:not([hidden])")


def hand_over(page: Page) -> None:
    """Give the seat up, so that the next tab need not wait until it lapses."""
    button = page.get_by_role("button", name="hand over")
    button.click()
    expect(button).to_be_hidden()


def drawings(page: Page) -> list[int]:
    """A number for what each canvas shows; equal drawings give equal numbers."""
    return page.evaluate(CELLS)


def press(page: Page, keys: str) -> None:
    """Press keys on the page itself."""
    page.locator("body").press(keys)
