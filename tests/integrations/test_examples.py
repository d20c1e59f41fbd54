"""The examples that train, from beginning to end."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from paths import ROOT


@pytest.mark.parametrize(
    ("tool", "script", "target"),
    [("opacus", "opacus_users.py", 4.0), ("jax_privacy", "jax_privacy_users.py", 3.0)],
)
def test_an_example_trains_stops_resumes_and_reports(tool, script, target):
    pytest.importorskip(tool, reason=f"needs the extra {tool}: make test-integrations")
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / script)], capture_output=True, text=True, check=False, timeout=500
    )
    assert done.returncode == 0, done.stderr
    rows = re.findall(r"^ +(\d+) +([\d.]+)% +([\d.]+) +([\d.]+)$", done.stdout, re.MULTILINE)
    assert len(rows) == 6
    single, whole = [float(row[2]) for row in rows], [float(row[3]) for row in rows]
    assert single == sorted(single)
    assert whole == sorted(whole)
    assert whole[-1] == pytest.approx(target, abs=1e-3)  # the resumed half counts on
    assert all(one < many for one, many in zip(single, whole, strict=True))
    assert float(rows[-1][1]) > 65.0  # it has learned something
    assert "resumed" in done.stdout
    assert "is refused" in done.stdout


def test_the_example_of_bands_trains_and_meets_its_target():
    pytest.importorskip("jax_privacy", reason="needs the extra jax_privacy: make test-integrations")
    script = str(ROOT / "examples" / "jax_privacy_bands.py")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False, timeout=500)
    assert done.returncode == 0, done.stderr
    rows = re.findall(r"^ +(\d+) +([\d.]+) +([\d.]+) +(\d+) +([\d.]+)%$", done.stdout, re.MULTILINE)
    assert [int(row[0]) for row in rows] == [1, 2, 4]
    assert all(3.999 <= float(row[2]) <= 4.0 for row in rows)
    assert all(float(row[4]) > 75.0 for row in rows)  # it has learned something
