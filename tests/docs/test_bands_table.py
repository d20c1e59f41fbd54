"""The table of bands in docs/correlated-noise.md has the library's figures, epsilons rounded up."""

from __future__ import annotations

import math

import pytest

from groupdp.correlated import bands_table
from paths import ROOT


def _rows() -> list[list[str]]:
    text = (ROOT / "docs" / "correlated-noise.md").read_text(encoding="utf-8")
    table = text.partition("| bands | k = 1 |")[2].partition("\n\n")[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]


@pytest.mark.parametrize("row", _rows(), ids=lambda row: f"{row[0]} bands")
def test_a_row_is_what_is_computed(row: list[str]) -> None:
    columns = [(1, "person"), (3, "person"), (3, "example"), (8, "person"), (8, "example")]
    for said, (group, assigned) in zip(row[1:6], columns, strict=True):
        (found,) = bands_table(
            (int(row[0]),),
            sampling_rate=0.01,
            steps=2000,
            noise_multiplier=2.0,
            normalisation="unit-columns",
            assigned=assigned,
            delta=1e-6,
            group_size=group,
        )
        assert math.ceil(found.epsilon.upper * 1e4) == round(float(said) * 1e4)
        assert f"{found.squared_error:.0f}" == row[6]


def test_the_table_has_all_rows() -> None:
    assert [row[0] for row in _rows()] == ["1", "2", "4", "8", "16"]
