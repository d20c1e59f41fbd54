"""What was renamed since 0.1 works for one release, and says so."""

from __future__ import annotations

import pytest

import groupdp as library
from command_line import groupdp

RUN = "--sampling-rate 0.01 --noise-multiplier 2 --steps 100 --delta 1e-6"
CAP = "--epsilon 8 --delta 1e-6 --batch-size 50 --steps 1000"


@pytest.mark.parametrize("command", [f"people {{}} {RUN}", f"cap {{}} {CAP}"])
def test_the_column_of_counts_by_its_old_name(command, tmp_path):
    file = tmp_path / "counts.csv"
    file.write_text("person,examples\n" + "".join(f"p{i},{1 + i % 4}\n" for i in range(400)))
    line = command.format(file)
    with pytest.warns(DeprecationWarning, match="--column is now called --counts"):
        old = groupdp(f"{line} --column examples")
    new = groupdp(f"{line} --counts examples")
    assert old.status == new.status == 0
    assert old.output == new.output
    assert "--column is now called --counts" in old.errors
    assert new.errors == ""
    assert groupdp(f"{line} --counts examples --column examples").status == 2


def test_packages_that_were_modules_keep_their_names():
    from groupdp.people import people_view
    from groupdp.pld import PrivacyLossDistribution

    assert people_view is library.people_view
    assert PrivacyLossDistribution is library.PrivacyLossDistribution
