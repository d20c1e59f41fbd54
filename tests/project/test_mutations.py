"""The mutations of studies/ can be made, and the note on the kernel says what each of them needs to be noticed."""

from __future__ import annotations

import importlib
import re
import sys
from collections import Counter

import pytest

from paths import ROOT


@pytest.fixture(scope="module")
def mutations():
    sys.path.insert(0, str(ROOT / "studies"))
    try:
        return importlib.import_module("mutations")
    finally:
        sys.path.remove(str(ROOT / "studies"))


@pytest.mark.parametrize("name", ["Checker", "Kernel"])
def test_what_a_mutation_replaces_stands_there_once(mutations, name):
    of = getattr(mutations, name)
    for mutation in of.mutations:
        text = (ROOT / "src" / of.folder / mutation.file).read_text()
        assert text.count(mutation.old) == 1, mutation
        assert mutation.new != mutation.old
    assert all(test.is_file() for test in of.tests)


def test_the_note_has_every_mutation_of_the_kernel(mutations):
    """Each kind of test names the inequalities that need it, with how many error terms of each."""
    note = (ROOT / "docs" / "internals" / "numerics.md").read_text(encoding="utf-8")
    stated = {}
    for kind, text in re.findall(r"^- \*(\w+)\*: (.*?)(?=^- \*|^#|\Z)", note, flags=re.MULTILINE | re.DOTALL):
        listed = re.findall(r"(S-\d+)(?: \((\d+)\))?(?=[,.])", text)
        stated[kind] = Counter({number: int(times or 1) for number, times in listed})
    made = {
        kind: Counter(m.inequality for m in mutations.Kernel.mutations if m.needs == kind)
        for kind in {m.needs for m in mutations.Kernel.mutations}
    }
    assert stated == made
