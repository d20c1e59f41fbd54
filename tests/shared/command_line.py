"""Runs a command in this process, as the `groupdp` script would."""

from __future__ import annotations

import contextlib
import io
import json
import re
import shlex
import tempfile
from typing import Any, NamedTuple

from groupdp.cli.application import build_app

#: One run, as a file and as options.
RUN = """\
title = "A run"
delta = 1e-6
group_size = 3

[[phase]]
sampling = "poisson"
sampling_rate = 0.01
noise_multiplier = 2.0
steps = 500
"""
FLAGS = "--sampling-rate 0.01 --noise-multiplier 2 --steps 500 --delta 1e-6 --group-size 3"


class Outcome(NamedTuple):
    """What a command left behind."""

    status: int
    output: str
    errors: str

    @property
    def json(self) -> Any:
        """The output, which must be one JSON document and nothing else."""
        assert self.errors == ""
        assert self.status == 0
        return json.loads(self.output)


def words_of(line: str) -> list[str]:
    """The words of a shell's line, in which the folder of temporary files counts as quoted where no quote precedes it:
    its name may have spaces."""
    folder = tempfile.gettempdir()
    return shlex.split(re.sub(f"(?<!['\"]){re.escape(folder)}", lambda _: shlex.quote(folder), line))


def groupdp(line: str) -> Outcome:
    """`groupdp LINE`, split as a shell would; the folder of temporary files needs no quotes."""
    output, errors = io.StringIO(), io.StringIO()
    status = 0
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
        try:
            build_app()(args=words_of(line), prog_name="groupdp")
        except SystemExit as leaving:
            status = int(leaving.code or 0)
    return Outcome(status, output.getvalue(), errors.getvalue())


def assert_one_sentence(outcome: Outcome, *words: str) -> None:
    """Exit status 2, nothing on stdout, and one line on stderr that contains every one of `words`."""
    assert outcome.status == 2, outcome
    assert outcome.output == ""
    assert outcome.errors.count("\n") == 1, outcome.errors
    assert outcome.errors.endswith("\n")
    assert "Traceback" not in outcome.errors
    for word in words:
        assert word in outcome.errors, outcome.errors
