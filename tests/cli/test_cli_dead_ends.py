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


@pytest.mark.parametrize("parameter", ["steps", "rate"])
def test_a_calibration_changes_the_phase_it_is_told_to(folder, parameter):
    phases = [
        library.DPSGD(library.PoissonSampling(rate=0.01), noise_multiplier=2.0, steps=500),
        library.DPSGD(library.PoissonSampling(rate=0.02), noise_multiplier=4.0, steps=50),
    ]
    calibrate = {"steps": library.calibrate_steps, "rate": library.calibrate_rate}[parameter]
    exact = calibrate(phases, epsilon=2.0, delta=1e-6, group_size=3, phase=1)
    answer = groupdp(f"calibrate {parameter} two.toml --epsilon 2 --which-phase 1 --json").json
    assert answer[exact.parameter] == exact.value
    assert answer["run"][0]["steps"] == 500
    line = f"calibrate {parameter} two.toml --epsilon 2"
    assert_one_sentence(groupdp(line), "which of the 2 phases", "counted from 0", "--which-phase")
    assert_one_sentence(groupdp(f"{line} --which-phase 2"), "which_phase must be", "at most 1, got 2")


def test_sources_are_counted_as_the_option_or_the_file_writes_them(folder):
    for line in ("epsilon sources.toml --group-size 3", "epsilon sources.toml", "spend sources.toml"):
        assert_one_sentence(groupdp(line), "group_size must say how many examples of each source", "web=1,books=1")
    assert groupdp("epsilon sources.toml --group-size web=1,books=1").status == 0
    assert_one_sentence(groupdp("curve sources.toml"), "one source", "groupdp epsilon --group-size web=1,books=1")
    Path("sources.toml").write_text("group_size = 3\n" + SOURCES)
    assert_one_sentence(groupdp("epsilon sources.toml"), "line 1: group_size must say", "{ web = 1, books = 1 }")


def test_the_help_of_a_statement_promises_no_default_group(folder):
    said = " ".join(groupdp("statement --help").output.replace("│", " ").split())
    assert "default 1); with sources" not in said
    assert "needed here or in the run file; with sources" in said
    Path("run.toml").write_text(RUN.replace("group_size = 3\n", ""))
    assert_one_sentence(groupdp("statement run.toml"), "group_size must be given for a statement")
    assert "PRIVACY" in groupdp("statement run.toml --group-size 2 --format text").output


@pytest.mark.parametrize(
    ("suffix", "begins"),
    [(".tex", "\\subsection*"), (".json", "{"), (".txt", "PRIVACY STATEMENT"), (".md", "# Privacy"), ("", "# Privacy")],
)
def test_the_suffix_chooses_the_format_of_a_statement(folder, suffix, begins):
    assert groupdp(f"statement run.toml -o st{suffix}").status == 0
    assert Path(f"st{suffix}").read_text().startswith(begins)


def test_a_format_that_contradicts_the_suffix_or_json_is_refused(folder):
    refused = groupdp("statement run.toml --format latex -o st.json")
    assert_one_sentence(refused, "out must end in .tex for the format latex, got 'st.json'")
    assert_one_sentence(groupdp("statement run.toml --json -o st.md"), "out must end in .json")
    assert_one_sentence(groupdp("statement run.toml --format latex --json"), "format must be json", "'latex'")
    assert not list(folder.glob("st.*"))
    assert groupdp("statement run.toml --format latex -o st.inc").status == 0
    assert Path("st.inc").read_text().startswith("\\subsection*")
    assert groupdp("statement run.toml --format json --json").json["group_size"] == 3


def test_a_phase_is_written_with_hyphens_too(folder):
    line = "epsilon --delta 1e-6 --group-size 3 --json --phase"
    answer = groupdp(f"{line} sampling-rate=0.01,noise-multiplier=2,steps=500").json
    assert answer == groupdp("epsilon run.toml --json").json
    refused = groupdp(f"{line} sampling_rate=0.01,noise_multiplyer=2,steps=500")
    assert_one_sentence(refused, "'noise_multiplyer' is not a known key", "did you mean noise_multiplier?")


def test_a_size_of_batches_names_the_samplings_that_take_it():
    refused = groupdp("epsilon --batch-size 10 --dataset-size 100 --noise-multiplier 2 --steps 5 --delta 1e-6")
    assert_one_sentence(refused, "sampling must say how batches of that size are chosen", "poisson", "fixed-batch")
    assert "balls-in-bins" not in refused.errors
    assert "poisson-sources" not in refused.errors


@pytest.mark.parametrize(
    ("options", "comment"),
    [
        ("--steps 0", "with 0 steps nothing is released"),
        ("--epochs 0", "with 0 steps nothing is released"),
        ("--group-size 0", "a group of size 0 changes nothing"),
    ],
)
def test_nothing_is_saved_that_is_refused(folder, options, comment):
    said = groupdp(f"epsilon run.toml {options} --save saved.toml")
    assert said.status == 0
    again = groupdp("epsilon saved.toml")
    assert (again.status, again.output, again.errors) == (0, said.output, "")
    assert comment in again.output
