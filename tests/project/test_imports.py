"""Imports point one way: a package may import those of the rows above its own, and those beside it in the row."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from paths import ROOT

SOURCE = ROOT / "src" / "groupdp"

#: From what everything shares to what nothing imports. Lazy imports, inside of functions, count as well.
ROWS = (
    ("_version", "floats", "printing"),
    ("errors",),
    ("bounds", "sides"),
    ("_files", "drawing", "groups", "fields", "data"),
    ("pairs", "neighbours"),
    ("losses", "moments", "laws"),
    ("samplings",),
    ("mechanisms",),
    ("engines",),
    ("enclosures",),
    ("compositions",),
    ("question",),
    ("guarantees",),
    ("calibration", "tradeoff", "pld", "sweeps", "audit"),
    ("baselines", "people", "certificate", "correlated"),
    ("run_file", "integrations", "loading"),
    ("ledger",),
    ("figures", "statement"),
    ("web",),
    ("cli",),
    ("__main__",),
)
#: The package itself imports nothing before a name is used (tests/test_public_api.py).
PACKAGE = "__init__"
ROW_OF = {name: number for number, row in enumerate(ROWS) for name in row}


def imports_of(path: Path) -> Iterator[str]:
    """The full names of groupdp's modules that a file imports, anywhere in it, but for type checkers alone."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for_types = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in for_types:
            continue
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} has a relative import"
            names = [f"groupdp.{alias.name}" for alias in node.names] if node.module == "groupdp" else [node.module]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        yield from (name for name in names if name and name.split(".")[0] == "groupdp")


def files() -> list[Path]:
    return sorted(path for path in SOURCE.rglob("*.py") if path != SOURCE / "__init__.py")


def test_every_module_has_a_row():
    there = {path.relative_to(SOURCE).parts[0].removesuffix(".py") for path in files()}
    assert there == set(ROW_OF)


@pytest.mark.parametrize("row", range(len(ROWS)), ids=[", ".join(row) for row in ROWS])
def test_nothing_imports_upward(row):
    wrong = []
    for path in files():
        unit = path.relative_to(SOURCE).parts[0].removesuffix(".py")
        if ROW_OF[unit] != row:
            continue
        for name in imports_of(path):
            above = name.split(".")[1] if "." in name else PACKAGE
            if above == PACKAGE or above not in ROW_OF:  # names of the package itself: public ones
                above = "guarantees"
            if ROW_OF[above] > row:
                wrong.append(f"{path.relative_to(SOURCE)} imports {name}")
    assert wrong == []


@pytest.mark.parametrize(("one", "other"), [("spectral", "lattice"), ("lattice", "spectral")])
def test_the_engines_do_not_know_each_other(one, other):
    for path in (SOURCE / "engines" / one).rglob("*.py"):
        assert not [name for name in imports_of(path) if name.startswith(f"groupdp.engines.{other}")]
