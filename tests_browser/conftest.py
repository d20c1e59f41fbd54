"""A real server, and the system's Chromium driven by Playwright.

Every page records what its console says, what fails and where its requests go; `page` checks all of it at the end.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request, expect, sync_playwright

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
#: Waiting for an answer, in milliseconds: machines are busy at times.
PATIENCE = 120_000
expect.set_options(timeout=PATIENCE)
# A shell that runs the tests in the background has them ignore Ctrl-C, and the server with them.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def address() -> Iterator[str]:
    program = "from groupdp.cli import main; main()"
    command = [sys.executable, "-c", program, "serve", "--port", "0", "--no-browser"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"})
    assert process.stdout is not None
    found = re.search(r"http://[\d.]+:\d+/", process.stdout.readline())
    assert found is not None
    yield found[0]
    process.send_signal(signal.SIGINT)
    process.wait(120)
    process.stdout.close()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=list(FLAGS))
        yield browser
        browser.close()


class Watched:
    """What a page's console said and which hosts it asked."""

    def __init__(self, page: Page, address: str) -> None:
        self.said: list[str] = []
        self.elsewhere: list[str] = []
        self._address = address
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.said.append(str(error)))
        page.on("request", self._request)

    def _console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.said.append(message.text)

    def _request(self, request: Request) -> None:
        if not request.url.startswith((self._address, "blob:", "data:")):
            self.elsewhere.append(request.url)


@pytest.fixture
def open_page(browser: Browser, address: str) -> Iterator[Callable[..., Page]]:
    """Opens the page; `refusals=True` if the test provokes refusals, which browsers write to the console."""
    contexts: list[tuple[BrowserContext, Watched, bool]] = []

    def open_it(fragment: str = "", *, width: int = 1280, dark: bool = False, refusals: bool = False) -> Page:
        context = browser.new_context(
            viewport={"width": width, "height": 900},
            color_scheme="dark" if dark else "light",
            accept_downloads=True,
            permissions=["clipboard-read", "clipboard-write"],
        )
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        contexts.append((context, Watched(page, address), refusals))
        page.goto(address + fragment)
        page.wait_for_selector("#curve svg")
        return page

    yield open_it
    for context, watched, refusals in contexts:
        context.close()
        said = [text for text in watched.said if not (refusals and "status of 400" in text)]
        assert said == []
        assert watched.elsewhere == []
