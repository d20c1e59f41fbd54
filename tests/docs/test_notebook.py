"""The notebook runs from top to bottom, and its page of the site shows what it prints."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from paths import ROOT

NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
_SPEC = importlib.util.spec_from_file_location("notebook_pages", ROOT / "tools" / "notebook_pages.py")
assert _SPEC is not None
assert _SPEC.loader is not None
notebook_pages = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(notebook_pages)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_cells_run_in_order(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(path.parent)
    cells = list(notebook_pages.executed(path))
    assert sum(kind == "code" for kind, _, _ in cells) >= 5
    assert cells[-1][2].startswith("# Privacy statement")


def test_a_page_shows_sources_and_outputs(tmp_path: Path) -> None:
    cells = [
        '{"cell_type": "markdown", "source": ["# Title"]}',
        '{"cell_type": "code", "outputs": [], "source": ["x = 20\\n", "print(x)\\n", "x + 1"]}',
        '{"cell_type": "code", "outputs": [], "source": ["x += 1"]}',
    ]
    path = tmp_path / "small.ipynb"
    path.write_text(f'{{"cells": [{", ".join(cells)}]}}', encoding="utf-8")
    shown = notebook_pages.as_markdown(path)
    code = "```python\nx = 20\nprint(x)\nx + 1\n```\n\n```text\n20\n21\n```\n\n```python\nx += 1\n```\n"
    assert shown == f"# Title\n\n{code}"
    link = notebook_pages.on_page_markdown("[a](notebooks/small.ipynb)", page=None, config=None, files=None)
    assert link == "[a](notebooks/small.md)"


def test_there_is_a_notebook() -> None:
    """So that an empty folder does not pass."""
    assert NOTEBOOKS
