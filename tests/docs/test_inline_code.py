"""Commands, options and names that the prose and the tables of the guides mention exist."""

from __future__ import annotations

import functools
import importlib
import re
from pathlib import Path

import pytest

import groupdp as library
from command_line import groupdp
from page_blocks import PAGES
from paths import ROOT

_INLINE = re.compile(r"`([^`\n]+)`")


def _inline(page: Path) -> list[str]:
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    return [code.replace("\\|", "|") for code in _INLINE.findall(text)]


@functools.cache
def _help(command: str) -> str:
    outcome = groupdp(f"{command} --help")
    assert outcome.status == 0, f"groupdp {command} is not a command: {outcome.errors}"
    return outcome.output


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands_and_options_exist(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`groupdp COMMAND --option`, each option in the help of its command."""
    monkeypatch.setenv("COLUMNS", "300")
    monkeypatch.setenv("TERM", "dumb")
    for code in _inline(page):
        if not re.match(r"groupdp [a-z]", code):
            continue
        words = code.split()[1:]
        depth = 2 if words[0] in ("calibrate", "audit", "ledger") and len(words) > 1 else 1
        for kind in words[depth - 1].split("|"):
            described = _help(" ".join([*words[: depth - 1], kind]))
            for option in re.findall(r"(?<!\S)--[a-z-]+", code):
                assert re.search(rf"{option}\b", described), f"{page.name}: {code} has no option {option}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_names_exist(page: Path) -> None:
    """`groupdp.a.b` is a module or a name in one."""
    for code in _inline(page):
        for dotted in re.findall(r"(?<![\w./'])groupdp((?:\.[A-Za-z_]\w*)+)", code):
            _resolve(f"groupdp{dotted}", f"{page.name}: {code}")


def test_every_public_name_is_in_the_reference() -> None:
    text = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^::: groupdp\.[\w.]*\.(\w+)$", text, flags=re.MULTILINE))
    assert set(library.__all__) - listed == {"__version__"}


def _resolve(dotted: str, where: str) -> None:
    parts = dotted.split(".")
    for length in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError as missing:
            if not (missing.name or "").startswith("groupdp"):
                return  # a tool that is not installed here
            continue
        except ImportError:
            return  # an integration whose tool is not installed here
        for name in parts[length:]:
            assert hasattr(found, name), f"{where}: there is no {dotted}"
            found = getattr(found, name)
        return
