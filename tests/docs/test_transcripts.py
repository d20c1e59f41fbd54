"""Every transcript and code block of the README and of the guides comes out as printed."""

from __future__ import annotations

import ast
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

import page_blocks
from command_line import groupdp
from groupdp.run_file import parse_run_file
from page_blocks import PAGES, Block, blocks_of
from paths import ROOT

#: Reasons that a block may have for not being executed.
REASONS = ("needs Opacus", "needs JAX Privacy", "needs riskcal", "needs a network", "takes minutes", "installs")
#: The most blocks that may have one.
MOST_OPT_OUTS = 8


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_blocks_come_out_as_printed(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The blocks of a page in order, in one directory and one namespace."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "dumb")
    namespace: dict[str, Any] = {"__name__": page.stem}
    for block in blocks_of(page):
        if block.reason is None:
            _execute(block, namespace)


def _execute(block: Block, namespace: dict[str, Any]) -> None:
    if block.file_name is not None:
        Path(block.file_name).write_text(block.text + "\n", encoding="utf-8")
    if block.is_transcript:
        for arguments, shown in page_blocks.commands_of(block.text):
            outcome = groupdp(arguments)
            found = page_blocks.differences(shown, outcome.output + outcome.errors)
            assert found is None, f"{block.place}: groupdp {arguments}\n{found}\n{outcome.output}{outcome.errors}"
    elif block.language == "python":
        _execute_python(block, namespace)
    elif block.language == "toml":
        parse_run_file(block.text, name=block.place)


def _execute_python(block: Block, namespace: dict[str, Any]) -> None:
    for statement, stated in page_blocks.annotated_values(block.text):
        if isinstance(statement, ast.Expr):
            value = eval(compile(ast.Expression(statement.value), block.place, "eval"), namespace)
        else:
            exec(compile(ast.Module([statement], []), block.place, "exec"), namespace)
            if stated is None:
                continue
            assert isinstance(statement, ast.Assign), f"{block.place}: a value is stated of no expression"
            value = eval(compile(ast.Expression(_loaded(statement.targets[0])), block.place, "eval"), namespace)
        if stated is not None:
            source = ast.unparse(statement)
            assert page_blocks.value_matches(stated, value), f"{block.place}: {source} is {value!r}, not {stated}"
            assert page_blocks.is_outward(source, stated, value), f"{block.place}: {source} is {value!r}, not {stated}"


def _loaded(target: ast.expr) -> ast.expr:
    return ast.parse(ast.unparse(target), mode="eval").body


@pytest.mark.parametrize(
    ("source", "stated", "outward"),
    [
        ("epsilon.upper", "40.8010447157: the guarantee", True),
        ("epsilon.upper", "40.8010447156: the guarantee", False),
        ("epsilon.lower", "40.8010447156", True),
        ("epsilon.lower", "40.8010447157", False),
        ("epsilon", "40.8", True),
    ],
)
def test_stated_sides_of_bounds_are_rounded_outward(source: str, stated: str, outward: bool) -> None:
    """An upper side that is rounded down is no guarantee."""
    assert page_blocks.is_outward(source, stated, 40.801044715602174) is outward


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_no_block_escapes(page: Path) -> None:
    """Code is fenced and of a kind that is executed; `text` is for what is neither code nor a command."""
    for block in blocks_of(page):
        if block.reason is not None or block.is_transcript or block.language in ("python", "toml"):
            continue
        assert block.language in ("text", "csv", "json"), f"{block.place}: a block of a kind that is not executed"
        assert block.language == "text" or block.file_name, f"{block.place}: data is shown, so it is a file of the page"
        assert not re.search(r"^\s*(\$ |groupdp \w|pip |import |from \w+ import)", block.text, re.MULTILINE), (
            block.place
        )
    outside = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    hidden = re.search(r"^ {4,}(\$ |groupdp [a-z]|import |from \w+ import|>>> ).*$", outside, re.MULTILINE)
    assert hidden is None, f"{page.name}: code that is not fenced: {hidden.group(0)}"


def test_blocks_that_are_not_executed_say_why_and_are_few() -> None:
    """Each names one of the accepted reasons."""
    opted_out = [block for page in PAGES for block in blocks_of(page) if block.reason is not None]
    for block in opted_out:
        assert block.reason is not None
        assert block.reason.startswith(REASONS), f"{block.place}: {block.reason}"
    listed = "\n".join(f"{block.place}: {block.reason}" for block in opted_out)
    assert len(opted_out) <= MOST_OPT_OUTS, listed


@pytest.mark.parametrize(
    ("shown", "actual"),
    [
        ("epsilon 40.802", "epsilon 40.8045"),
        ("epsilon 9", "epsilon 9.001"),
        ("at most 40.8", "at least 40.8"),
        ("one two", "one two three"),
        ("one two three", "one two"),
        ("one\n...\nfour", "one two three five"),
        ("delta 1e-06", "delta 3e-06"),
        ("delta 1e-06", "delta 2e-06"),
        ("at most 40.8", "at most 40.9"),
        ("version 0.1.0", "version 0.2.0"),
        ("step 943", "step 944"),
    ],
)
def test_the_comparison_sees_differences(shown: str, actual: str) -> None:
    """Digits, words, and what is missing or left over."""
    assert page_blocks.differences(shown, actual) is not None


@pytest.mark.parametrize(
    ("shown", "actual"),
    [
        ("epsilon  40.8010", "epsilon 40.80104471"),
        ("epsilon 40.8010447155", "epsilon 40.8010447156"),
        ("delta 1e-6", "delta 1e-06"),
        ("────", "────────"),
        ("one\n...\nfour 1.5", "one two three four 1.5"),
        ("one\n...\n", "one two three"),
        ("value 2.76625472...", "value 2.766254723"),
    ],
)
def test_the_comparison_accepts_what_is_the_same(shown: str, actual: str) -> None:
    """To the digits shown, whatever the spaces."""
    assert page_blocks.differences(shown, actual) is None


@pytest.mark.parametrize(
    ("comment", "value", "expected"),
    [
        ("2.7663: the noise", 2.76629, True),
        ("2.7663", 2.7674, False),
        ("True", False, False),
        ("8", 8, True),
        ("8", 9, False),
        ("8", 7.9999, False),
        ("inf", float("inf"), True),
        ("[1, 2.50]", [1, 2.501], True),
        ("[1, 2.50]", [1, 2.601], False),
    ],
)
def test_stated_values_are_compared(comment: str, value: Any, expected: bool) -> None:
    """A comment that states another value is found."""
    assert page_blocks.value_matches(comment, value) is expected
