"""A closed pipe, a closed output, a full disk: no command answers with a traceback."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(sys.executable).with_name("groupdp")
QUOTED = shlex.quote(str(SCRIPT))
ALIKE = ["", "--version", "--help", "epsilon --help", "calibrate --help", "epsilon {run}"]
FEW = ["--version", "epsilon --help", "epsilon {run}"]


@pytest.fixture
def quoted_run(run_file: Path) -> str:
    return shlex.quote(str(run_file))


def shell(line: str) -> tuple[int, str, str]:
    done = subprocess.run(["/bin/sh", "-c", line], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("command", [*ALIKE, "curve {run} --group-sizes 1:3"])
def test_a_closed_pipe_is_no_error(quoted_run, command):
    """The reader has left before the first line is written."""
    reading, writing = os.pipe()
    os.close(reading)
    words = shlex.split(command.format(run=quoted_run))
    done = subprocess.run([SCRIPT, *words], stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("command", FEW)
def test_a_closed_output_gets_one_sentence(quoted_run, command):
    status, _, errors = shell(f"{QUOTED} {command.format(run=quoted_run)} >&-")
    assert (status, errors.count("\n")) == (2, 1)
    assert errors.startswith("The standard output is closed")
    if not Path("/dev/full").exists():  # a device of Linux
        return
    status, _, errors = shell(f"{QUOTED} {command.format(run=quoted_run)} >/dev/full")
    assert (status, errors.count("\n")) == (2, 1)
    assert "No space left on device" in errors


@pytest.mark.parametrize("command", FEW)
def test_a_closed_standard_error_changes_nothing(quoted_run, command):
    line = f"{QUOTED} {command.format(run=quoted_run)}"
    assert shell(f"{line} 2>&-") == shell(line)


def test_with_every_stream_closed_the_status_is_left():
    assert shell(f"{QUOTED} >&- 2>&- <&-") == (2, "", "")
    assert shell(f"{QUOTED} epsilon 2>&-") == (2, "", "")


@pytest.mark.parametrize("line", ["epsilon -", "verify -", "count - --by user_id"])
def test_a_closed_standard_input_gets_one_sentence(line):
    status, output, errors = shell(f"{QUOTED} {line} <&-")
    assert (status, output) == (2, "")
    assert errors.count("\n") == 1
    assert "the standard input must be open" in errors
