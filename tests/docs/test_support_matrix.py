"""The table that opens docs/samplings.md says what the library answers: tight, valid or refused."""

from __future__ import annotations

import pytest

import groupdp
from groupdp.samplings import SAMPLINGS
from paths import ROOT

_COLUMNS = {"add, remove": ("add", "remove"), "substitute": ("substitute",), "zero-out": ("zero-out",)}
_LETTERS = {"q": 0.1, "B": 4, "n": 40, "b": 10, "t": 2, "m": 2}


def _table(beginning: str) -> list[list[str]]:
    text = (ROOT / "docs" / "samplings.md").read_text(encoding="utf-8")
    table = text.partition(beginning)[2].partition("\n\n")[0]
    return [[cell.strip(" `") for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]


MATRIX = _table("| how batches are chosen |")
CLASSES = dict(_table("| `--sampling` | class |"))


@pytest.mark.parametrize("row", MATRIX, ids=lambda row: row[1])
def test_a_row_is_what_is_answered(row: list[str]) -> None:
    sampling = eval(CLASSES[row[1]], {**vars(groupdp.samplings), **_LETTERS})
    assert sampling.name == row[1]
    run = groupdp.DPSGD(sampling=sampling, noise_multiplier=4.0, steps=10)
    for said, adjacencies in zip(row[2:5], _COLUMNS.values(), strict=True):
        for adjacency in adjacencies:
            for size in (1, 3):
                tight = {"T": True, "V": False, "V, 1: T": size == 1, "–": None}[said]
                assert _tight(run, size, adjacency) is tight, f"{row[1]}, {adjacency}, groups of {size}"


def _tight(run: groupdp.DPSGD, size: int, adjacency: str) -> bool | None:
    group = {"web": size} if isinstance(run.sampling, groupdp.PoissonSources) else size
    try:
        return groupdp.epsilon(run, delta=1e-3, group_size=group, adjacency=adjacency).tight
    except groupdp.InvalidArgument as refusal:
        if refusal.argument != "adjacency":
            raise
        return None


def test_every_sampling_has_a_row() -> None:
    assert sorted(row[1] for row in MATRIX) == sorted(SAMPLINGS)
