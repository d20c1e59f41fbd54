"""What `groupdp` exports, and what importing it costs."""

from __future__ import annotations

import subprocess
import sys

import groupdp

PUBLIC = {
    "AllocationSampling",
    "ApproximateDP",
    "BallsInBinsSampling",
    "Bounds",
    "Calibration",
    "CorrelatedNoise",
    "DPSGD",
    "DiscreteGaussianRelease",
    "FixedBatchSampling",
    "FixedOrderSampling",
    "FixedPeople",
    "PoissonPeople",
    "TruncatedPeople",
    "GaussianRelease",
    "GroupDPError",
    "InvalidArgument",
    "LaplaceRelease",
    "LimitExceeded",
    "Mechanism",
    "MixtureOfGaussians",
    "PoissonSampling",
    "PoissonSources",
    "PrivacyLossDistribution",
    "Provenance",
    "Search",
    "ShuffledOnceSampling",
    "ShuffledSampling",
    "TradeOff",
    "SpreadSampling",
    "TruncatedPoissonSampling",
    "__version__",
    "calibrate_batch_size",
    "calibrate_group_size",
    "calibrate_noise",
    "calibrate_rate",
    "calibrate_steps",
    "choose_cap",
    "delta",
    "epsilon",
    "fdp_epsilon",
    "filter_epsilon",
    "inspect",
    "linear_reference",
    "log_delta",
    "people_view",
    "plan",
    "renyi_vadhan_epsilon",
    "risk",
    "sweep",
    "trade_off",
    "tuned_epsilon",
    "vadhan_epsilon",
}


def test_the_public_names_are_exactly_these():
    assert set(groupdp.__all__) == PUBLIC
    assert set(dir(groupdp)) == PUBLIC
    assert all(hasattr(groupdp, name) for name in PUBLIC)
    assert not hasattr(groupdp, "no_such_name")


def test_importing_the_core_loads_nothing_heavy():
    script = "import sys, groupdp; print(*sorted({name.split('.')[0] for name in sys.modules}))"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert not {"numpy", "scipy", "matplotlib", "typer", "rich", "pyarrow", "pandas", "duckdb", "dask", "polars"} & set(
        loaded
    )


def test_errors_form_one_tree():
    assert issubclass(groupdp.InvalidArgument, groupdp.GroupDPError)
    assert issubclass(groupdp.InvalidArgument, ValueError)
    assert issubclass(groupdp.LimitExceeded, groupdp.GroupDPError)


def test_every_public_class_says_what_it_is_of():
    run = groupdp.DPSGD(sampling=groupdp.PoissonSampling(rate=0.1), noise_multiplier=2.0, steps=3)
    function = groupdp.trade_off(run, group_size=4)
    assert repr(function) == f"TradeOff({run!r}, group_size=4, adjacency='add-or-remove')"
    names = {name: getattr(groupdp, name) for name in PUBLIC}
    assert eval(repr(function), names).true_positive_rate(0.1) == function.true_positive_rate(0.1)
    assert repr(groupdp.trade_off([run, run], removed=1, added=2)) == f"TradeOff({[run, run]!r}, removed=1, added=2)"
    classes = [one for name in PUBLIC if isinstance(one := getattr(groupdp, name), type)]
    assert [one for one in classes if one.__repr__ is object.__repr__] == [groupdp.Mechanism]  # abstract
