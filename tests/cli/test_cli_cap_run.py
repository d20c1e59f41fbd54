"""`groupdp cap` takes what it can from a run file."""

from __future__ import annotations

import json

import pytest

from command_line import groupdp

RUN = """
delta = 1e-6
[[phase]]
sampling = "poisson"
sampling_rate = 0.05
noise_multiplier = 1.0
steps = 500
"""


@pytest.fixture
def files(tmp_path):
    counts, run = tmp_path / "counts.csv", tmp_path / "run.toml"
    counts.write_text("examples\n" + "".join(f"{1 + i % 4}\n" for i in range(400)))
    run.write_text(RUN)
    return counts, run


def test_delta_steps_and_batch_come_from_the_file(files):
    counts, run = files
    from_file = groupdp(f"cap {counts} --counts examples --run {run} --epsilon 8 --json")
    plain = groupdp(f"cap {counts} --counts examples --delta 1e-6 --steps 500 --batch-size 50 --epsilon 8 --json")
    assert from_file.status == plain.status == 0
    assert json.loads(from_file.output) == json.loads(plain.output)


def test_options_override_the_file(files):
    counts, run = files
    found = groupdp(f"cap {counts} --counts examples --run {run} --epsilon 8 --epochs 10 --batch-size 40 --json")
    plain = groupdp(f"cap {counts} --counts examples --delta 1e-6 --epochs 10 --batch-size 40 --epsilon 8 --json")
    assert json.loads(found.output) == json.loads(plain.output)


def test_what_is_missing_or_has_no_cap_is_refused(files):
    counts, run = files
    assert "delta must be given" in groupdp(f"cap {counts} --counts examples --epsilon 8 --steps 10").errors
    run.write_text(
        RUN.replace('"poisson"', '"shuffled"').replace("sampling_rate = 0.05", "batch_size = 4\ndataset_size = 40")
    )
    refused = groupdp(f"cap {counts} --counts examples --run {run} --epsilon 8")
    assert refused.status == 2
    assert "run must have one phase of Poisson sampling" in refused.errors


def test_the_batch_is_told_and_a_rounded_one_noted(files, tmp_path):
    counts, run = files
    told = groupdp(f"cap {counts} --counts examples --run {run} --epsilon 8").output
    assert "batches of 50 on average, 500 steps" in told
    assert "Note" not in told
    few = tmp_path / "few.csv"
    few.write_text("examples\n" + "1\n2\n" * 10)
    told = groupdp(f"cap {few} --counts examples --run {run} --epsilon 8").output
    assert "a batch has 1.5 of 30 examples; 2 is used" in told
