"""A real Chromium on a real server. Each test module gets a fresh server; pages fail on errors and outside requests."""

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

ROOT = Path(__file__).resolve().parents[2]
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
QUIET = ["--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run"]
PROBED = ("/_stcore/health", "/_stcore/host-config")  # Streamlit's frontend looks for these below a deep link first


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything in this folder drives a browser."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.browser)


class Server:
    """The app on a free port, with its log.

    Args:
        log: file that takes what the server writes.
    """

    def __init__(self, log: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.url, self.log = f"http://127.0.0.1:{self.port}", log
        command = [sys.executable, "-m", "streamlit", "run", "app.py", "--server.headless", "true"]
        environment = os.environ | {"HF_HUB_OFFLINE": "1"}
        with log.open("w") as out:
            self.process = subprocess.Popen(
                [*command, "--server.port", str(self.port)], cwd=ROOT, stdout=out, stderr=out, env=environment
            )
        self._wait()

    def engine_pid(self) -> int:
        """Process id of the engine, a child of the server."""
        children = Path(f"/proc/{self.process.pid}/task").glob("*/children")
        pids = [int(pid) for path in children for pid in path.read_text().split()]
        return next(pid for pid in pids if b"engine.process" in Path(f"/proc/{pid}/cmdline").read_bytes())

    def stop(self) -> None:
        """End the server; its engine ends with it."""
        self.process.terminate()
        self.process.wait(20)

    def _wait(self) -> None:
        for _ in range(600):
            try:
                urllib.request.urlopen(f"{self.url}/_stcore/health", timeout=1)
                return
            except OSError:
                assert self.process.poll() is None, self.log.read_text()
                time.sleep(0.1)
        pytest.fail(f"the server did not start: {self.log.read_text()}")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A fresh server for the tests of one module."""
    made = Server(tmp_path_factory.mktemp("server") / "log")
    yield made
    made.stop()


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """An installed Chrome or Chromium, else the one of Playwright.

    For one module only: while it is open, Playwright keeps an event loop running in this thread, and others fail there.
    """
    with sync_playwright() as playwright:
        installed = next(filter(None, map(shutil.which, NAMES)), None)
        path = installed or playwright.chromium.executable_path
        if not Path(path).exists():
            pytest.fail("no Chrome or Chromium: apt-get install chromium, or python -m playwright install chromium")
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu", *QUIET])
        yield browser
        browser.close()


Open = Callable[..., Page]


@pytest.fixture
def visit(chromium: Browser, server: Server) -> Iterator[Open]:
    """Opens a path in a tab of its own; at the end no tab may have seen an error or asked another host."""
    tabs, errors, hosts = [], [], set()

    def opened(path: str, **options: object) -> Page:
        page = chromium.new_context(viewport={"width": 1366, "height": 768}, **options).new_page()
        page.set_default_timeout(60_000)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda message: _note(message, errors))
        page.on("request", lambda request: hosts.add(urlsplit(request.url).hostname))
        page.goto(server.url + path)
        tabs.append(page)
        return page

    yield opened
    shown = [page.locator("[data-testid=stException]").count() for page in tabs]
    for page in tabs:
        page.context.close()
    assert not errors and not any(shown), errors
    assert hosts <= {"127.0.0.1", None, ""}, hosts


def _note(message: object, errors: list[str]) -> None:
    if message.type == "error" and not message.location["url"].endswith(PROBED):
        errors.append(f"{message.text} {message.location['url']}")
