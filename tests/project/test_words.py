"""Which words may stand where: directions are told apart in one place, samplings nowhere."""

import re

import pytest

from paths import ROOT

SOURCES = sorted((ROOT / "src" / "groupdp").rglob("*.[pch]*"))
SOURCES = [path for path in SOURCES if path.suffix in (".py", ".c", ".h")]

#: Where "add" and "remove" are words: the adjacencies themselves, what a statement says, and the checker of
#: certificates, which takes nothing on trust from the rest of the package.
DIRECTIONS = (
    "neighbours.py",
    "statement/text.py",
    "tradeoff/__init__.py",
    "certificate/checker/laws.py",
    "certificate/checker/runs.py",
)
#: Where the kind of a sampling is looked at: to validate input, and where another tool's objects come and go.
KINDS = (
    "cli/asked.py",
    "guarantees.py",
    "loading/",
    "mechanisms/dpsgd.py",
    "integrations/jax_privacy.py",
    "integrations/import_run.py",
    "integrations/opacus.py",
    "integrations/tensorflow_privacy.py",
)


def _places(pattern: str) -> list[str]:
    found = [path for path in SOURCES if re.search(pattern, path.read_text(encoding="utf-8"))]
    return [path.relative_to(ROOT / "src" / "groupdp").as_posix() for path in found]


@pytest.mark.parametrize(
    ("pattern", "allowed"),
    [(r"""["'](add|remove)["']""", DIRECTIONS), (r"isinstance\(.*Sampling", KINDS)],
    ids=["directions", "kinds of sampling"],
)
def test_words_stand_where_they_belong(pattern: str, allowed: tuple[str, ...]) -> None:
    found = _places(pattern)
    assert [place for place in found if not place.startswith(allowed)] == []
    assert [place for place in allowed if not any(one.startswith(place) for one in found)] == [], "no longer needed"


def test_engines_know_nothing_of_adjacencies_samplings_and_groups() -> None:
    found = _places(r"(?i)\b(adjacen\w*|samplings?|group_size)\b")
    assert any(place.startswith("samplings/") for place in found)
    assert [place for place in found if place.startswith("engines/")] == []
