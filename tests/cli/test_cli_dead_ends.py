"""Refusals that say what works instead, and values that are taken wherever they are written."""

from __future__ import annotations

from pathlib import Path

import pytest

import groupdp as library
from command_line import FLAGS, RUN, assert_one_sentence, groupdp

SOURCES = """\
delta = 1e-6

[[phase]]
sampling = "poisson-sources"
sampling_rates = { web = 0.01, books = 0.002 }
noise_multiplier = 2.0
steps = 100
"""
TWO_PHASES = RUN + """
[[phase]]
sampling = "poisson"
sampling_rate = 0.02
noise_multiplier = 4.0
steps = 50
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working directory with a run, its variants and some data."""
    monkeypatch.chdir(tmp_path)
    Path("run.toml").write_text(RUN)
    Path("two.toml").write_text(TWO_PHASES)
    Path("sources.toml").write_text(SOURCES)
    Path("rows.csv").write_text("user_id,x\n" + "".join(f"u{user},{row}\n" for user in range(5) for row in range(user)))
    Path("scores.csv").write_text("with_group,without_group\n" + "1.0,0.0\n" * 20)
    return tmp_path


@pytest.mark.parametrize(
    "line",
    [
        "people rows.csv run.toml --by user_id",
        "people rows.csv --by user_id",
        "people rows.csv --by user_id --delta 1e-6",
        "cap rows.csv run.toml --by user_id --epsilon 8",
        "cap rows.csv --by user_id --epsilon 8",
        "audit scores scores.csv run.toml",
        "audit scores scores.csv",
    ],
)
def test_a_run_file_beside_data_is_an_option_and_the_refusal_says_so(folder, line):
    assert_one_sentence(groupdp(line), "--run")


def test_only_one_input_can_be_the_standard_one(folder):
    for line in ("people - --run - --by user_id", "cap - --run - --by user_id --epsilon 8", "audit scores - --run -"):
        assert_one_sentence(groupdp(line), "only one of them can be -")
