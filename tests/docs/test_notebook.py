"""The notebook runs from top to bottom."""

from __future__ import annotations

import ast
import json
from typing import Any

import pytest

from paths import ROOT

NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_cells_run_in_order(path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each code cell in one namespace; the value that a cell ends with can be shown."""
    monkeypatch.chdir(path.parent)
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    namespace: dict[str, Any] = {"__name__": "__main__"}
    ran = 0
    for number, cell in enumerate(cells):
        if cell["cell_type"] != "code":
            continue
        assert not cell["outputs"], f"cell {number} is stored with outputs, which nothing keeps true"
        body = ast.parse("".join(cell["source"])).body
        last = body.pop() if isinstance(body[-1], ast.Expr) else None
        exec(compile(ast.Module(body, []), f"cell {number}", "exec"), namespace)
        if last is not None:
            repr(eval(compile(ast.Expression(last.value), f"cell {number}", "eval"), namespace))
        ran += 1
    assert ran >= 5


def test_there_is_a_notebook() -> None:
    """So that an empty folder does not pass."""
    assert NOTEBOOKS
