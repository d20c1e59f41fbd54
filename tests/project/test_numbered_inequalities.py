"""Every numbered inequality is stated in docs/, used in the code and attacked by a test: the three sets agree."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from paths import ROOT, TESTS

#: The prefix of a note's numbers, and the note.
NOTES = {
    "S": "internals/numerics.md",
    "L": "internals/lattice.md",
    "P": "internals/laws.md",
    "T": "internals/tradeoff.md",
    "C": "internals/certificate.md",
    "M": "internals/correlated-noise.md",
    "B": "internals/baselines.md",
    "R": "internals/releases.md",
}


def numbers(prefix: str, files: Iterable[Path]) -> set[int]:
    pattern = re.compile(rf"\b{prefix}-(\d+)\b")
    return {int(found) for file in files for found in pattern.findall(file.read_text(encoding="utf-8"))}


@pytest.mark.parametrize(("prefix", "note"), NOTES.items())
def test_what_is_proved_used_and_attacked_is_the_same(prefix: str, note: str):
    text = (ROOT / "docs" / note).read_text(encoding="utf-8")
    stated = re.findall(rf"\*\*{prefix}-(\d+)\b[^*]*\.\*\*", text)
    assert len(stated) == len(set(stated)), "a number is stated once"
    proved = {int(number) for number in stated}
    sources = [path for pattern in ("*.py", "*.c", "*.h") for path in (ROOT / "src").rglob(pattern)]
    used = numbers(prefix, sources)
    attacked = numbers(prefix, (path for path in TESTS.rglob("*.py") if path != Path(__file__)))
    assert proved, f"docs/{note} has no numbered inequality"
    assert used == proved, f"used but not stated: {sorted(used - proved)}; stated but not used: {sorted(proved - used)}"
    assert attacked == proved, (
        f"in tests but not stated: {sorted(attacked - proved)}; without a test: {sorted(proved - attacked)}"
    )
