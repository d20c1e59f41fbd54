"""The run of `command_line`, as a file."""

from __future__ import annotations

import pytest

from command_line import RUN


@pytest.fixture
def run_file(tmp_path):
    path = tmp_path / "run.toml"
    path.write_text(RUN)
    return path
