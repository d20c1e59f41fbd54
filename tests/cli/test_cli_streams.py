"""A closed pipe, a closed output, a full disk: no command answers with a traceback."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(sys.executable).with_name("groupdp")
ALIKE = ["", "--version", "--help", "epsilon --help", "calibrate --help", "epsilon {run}"]


def shell(line: str) -> tuple[int, str, str]:
    done = subprocess.run(["/bin/bash", "-c", line], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("command", ALIKE)
def test_a_closed_pipe_is_no_error(run_file, command):
    # The reader has left before the first line is written.
    line = f"(sleep 0.05; {SCRIPT} {command.format(run=run_file)}) | true; exit ${{PIPESTATUS[0]}}"
    assert shell(line) == (0, "", "")


@pytest.mark.parametrize("command", ALIKE)
def test_a_closed_output_gets_one_sentence(run_file, command):
    status, _, errors = shell(f"{SCRIPT} {command.format(run=run_file)} >&-")
    assert (status, errors.count("\n")) == (2, 1)
    assert errors.startswith("The standard output is closed")
    status, _, errors = shell(f"{SCRIPT} {command.format(run=run_file)} >/dev/full")
    assert (status, errors.count("\n")) == (2, 1)
    assert "No space left on device" in errors


@pytest.mark.parametrize("command", ALIKE)
def test_a_closed_standard_error_changes_nothing(run_file, command):
    line = f"{SCRIPT} {command.format(run=run_file)}"
    assert shell(f"{line} 2>&-") == shell(line)


def test_with_every_stream_closed_the_status_is_left():
    assert shell(f"{SCRIPT} >&- 2>&- <&-") == (2, "", "")
    assert shell(f"{SCRIPT} epsilon 2>&-") == (2, "", "")


@pytest.mark.parametrize("line", ["epsilon -", "verify -", "count - --by user_id"])
def test_a_closed_standard_input_gets_one_sentence(line):
    status, output, errors = shell(f"{SCRIPT} {line} <&-")
    assert (status, output) == (2, "")
    assert errors.count("\n") == 1
    assert "the standard input must be open" in errors
