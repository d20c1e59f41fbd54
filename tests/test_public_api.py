"""What `groupdp` exports, and what importing it costs."""

from __future__ import annotations

import subprocess
import sys

import groupdp

PUBLIC = {
    "Bounds",
    "DPSGD",
    "FixedBatchSampling",
    "GroupDPError",
    "InvalidArgument",
    "LimitExceeded",
    "MixtureOfGaussians",
    "PoissonSampling",
    "Provenance",
    "__version__",
    "delta",
    "epsilon",
    "log_delta",
}


def test_the_public_names_are_exactly_these():
    assert set(groupdp.__all__) == PUBLIC
    assert all(hasattr(groupdp, name) for name in PUBLIC)


def test_importing_the_core_loads_nothing_heavy():
    script = "import sys, groupdp; print(*sorted({name.split('.')[0] for name in sys.modules}))"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert "numpy" in loaded
    assert not {"scipy", "matplotlib", "typer", "rich", "pyarrow", "pandas"} & set(loaded)


def test_errors_form_one_tree():
    assert issubclass(groupdp.InvalidArgument, groupdp.GroupDPError)
    assert issubclass(groupdp.InvalidArgument, ValueError)
    assert issubclass(groupdp.LimitExceeded, groupdp.GroupDPError)
