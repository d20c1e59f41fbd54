"""What is said about installing is the same everywhere, CI runs what the README names, and no test reads the clock."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tomllib

import pytest

from paths import ROOT, TESTS

OLDEST = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"].removeprefix(">=")


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "Makefile"])
def test_the_oldest_python_is_named_everywhere(page):
    assert set(re.findall(r"Python (3\.\d+) or newer", (ROOT / page).read_text())) == {OLDEST}


def test_the_oldest_python_has_a_wheel_and_the_pins_are_the_same_for_every_python():
    built = re.findall(r"cp3(\d+)-\*", (ROOT / ".github/workflows/wheels.yml").read_text())
    assert f"3.{min(map(int, built))}" == OLDEST
    for name in ("constraints.txt", "constraints-integrations.txt"):
        pins = [line for line in (ROOT / name).read_text().splitlines() if not line.startswith("#")]
        assert [pin for pin in pins if not re.fullmatch(r"[\w.-]+==[\w.]+", pin)] == []
        names = [pin.split("==")[0].lower() for pin in pins]
        assert len(set(names)) == len(names)


def test_an_old_python_gets_one_sentence_before_anything_is_installed(tmp_path):
    old = tmp_path / "python"
    pretends = 'import sys; sys.version_info, sys.version = (3, 10, 13), "3.10.13 of 2023"; exec(sys.argv[1])'
    old.write_text(f"#!/bin/sh\nexec {shlex.quote(sys.executable)} -c '{pretends}' \"$2\"\n")
    old.chmod(0o755)
    for target in ("demo", "test", "docs", "wheel", "test-integrations", "test-pythons"):
        command = [
            "make",
            "--no-print-directory",
            f"PYTHON={old}",
            f"VENV={tmp_path}/one",
            f"TOOLS={tmp_path}/other",
            target,
        ]
        environment = {**os.environ, "MAKEFLAGS": ""}
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=environment)
        assert done.returncode != 0
        assert done.stderr.startswith(f"groupdp needs Python {OLDEST} or newer, and {old} is 3.10.13: "), done
        assert done.stdout == ""


def test_ci_runs_every_target_that_the_readme_names():
    named = set(re.findall(r"^\$ make ([\w-]+)", (ROOT / "README.md").read_text(), re.MULTILINE))
    run = re.findall(r"^make ([\w-]+)$", (ROOT / ".ci/run").read_text(), re.MULTILINE)
    assert named == {"demo", "test", "docs", "wheel"}
    assert named | {"test-integrations", "test-browser"} <= set(run)


def test_no_test_measures_time():
    """A test that asserts seconds fails on a slow or busy machine: count work, or measure in benchmarks/."""
    measures = re.compile(r"\b(perf_counter|process_time|thread_time|default_timer)\(|\bmonotonic\(\) - [a-z]")
    found = [
        path.name
        for path in TESTS.rglob("test_*.py")
        if path.name != "test_installing.py" and measures.search(path.read_text())
    ]
    assert found == []
