"""What was renamed since 0.1 works for one release, and says so."""

from __future__ import annotations

import importlib

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


@pytest.mark.parametrize(
    ("module", "name", "now"),
    [
        ("groupdp.cap", "choose_cap", "groupdp.people.cap"),
        ("groupdp.risks", "risk", "groupdp.tradeoff.risk"),
        ("groupdp.baselines.old_tool", "old_tool_epsilon", "groupdp.baselines.tensorflow_privacy_model"),
        ("groupdp.dpsgd", "PoissonSampling", "groupdp.samplings"),
        ("groupdp.dpsgd", "FixedBatchSampling", "groupdp.samplings"),
    ],
)
def test_a_module_that_moved(module, name, now):
    with pytest.warns(DeprecationWarning, match=f"{name} is now {now}"):
        found = getattr(importlib.import_module(module), name)
    assert found is getattr(importlib.import_module(now), name)
    with pytest.raises(AttributeError, match="no attribute"):
        importlib.import_module(module).__nothing__  # noqa: B018


def test_packages_that_were_modules_keep_their_names():
    from groupdp.people import people_view
    from groupdp.pld import PrivacyLossDistribution

    assert people_view is library.people_view
    assert PrivacyLossDistribution is library.PrivacyLossDistribution
