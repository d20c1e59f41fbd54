"""The documentation opened from files on disk, in Chromium: search answers, and nothing comes from another host."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"})
    return folder


@pytest.mark.parametrize("name", ["index.html", "notebooks/users.html"])
def test_search_answers_from_disk(browser: Browser, site: Path, name: str) -> None:
    page = browser.new_page()
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.goto((site / name).as_uri())
    page.locator("input.md-search__input").click()
    page.keyboard.type("microbatches")
    results = page.locator(".md-search-result__item a.md-search-result__link")
    expect(results.first).to_have_attribute("href", (site / "samplings.html").as_uri())
    assert [url for url in requests if not url.startswith("file:")] == []
    page.close()


def test_long_commands_wrap(browser: Browser, site: Path) -> None:
    page = browser.new_page(viewport={"width": 1300, "height": 900})
    page.goto((site / "cli.html").as_uri())
    blocks = page.locator("pre > code")
    assert max(len(line) for text in blocks.all_inner_texts() for line in text.splitlines()) > 80
    assert blocks.evaluate_all("all => all.filter(code => code.scrollWidth > code.clientWidth + 1).length") == 0
    page.close()
