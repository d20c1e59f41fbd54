"""Refusals that say what works instead, and values that are taken wherever they are written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import groupdp as library
from command_line import RUN, assert_one_sentence, groupdp

SOURCES = """\
delta = 1e-6

[[phase]]
sampling = "poisson-sources"
sampling_rates = { web = 0.01, books = 0.002 }
noise_multiplier = 2.0
steps = 100
"""
TWO_PHASES = (
    RUN
    + """
[[phase]]
sampling = "poisson"
sampling_rate = 0.02
noise_multiplier = 4.0
steps = 50
"""
)


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
    answer = groupdp(f"calibrate {parameter} two.toml --epsilon 2 --which-phase 2 --json").json
    assert answer[exact.parameter] == exact.value
    assert answer["run"][0]["steps"] == 500
    line = f"calibrate {parameter} two.toml --epsilon 2"
    assert_one_sentence(groupdp(line), "which of the 2 phases", "--which-phase 1 to 2")
    assert_one_sentence(groupdp(f"{line} --which-phase 3"), "which_phase must be", "at most 2, got 3")
    assert_one_sentence(groupdp(f"{line} --which-phase 0"), "which_phase must be", "at least 1, got 0")


def test_sources_are_counted_as_the_option_or_the_file_writes_them(folder):
    for line in ("epsilon sources.toml --group-size 3", "epsilon sources.toml", "spend sources.toml"):
        assert_one_sentence(groupdp(line), "group_size must say how many examples of each source", "web=1,books=1")
    assert groupdp("epsilon sources.toml --group-size web=1,books=1").status == 0
    assert_one_sentence(groupdp("curve sources.toml"), "one source", "groupdp epsilon --group-size web=1,books=1")
    assert_one_sentence(groupdp("people rows.csv --by user_id --run sources.toml"), "one source", "groupdp epsilon")
    assert_one_sentence(groupdp("statement sources.toml --group-size 3"), "--group-size web=1,books=1", "got 3")
    assert_one_sentence(groupdp("epsilon sources.toml --removed 1"), "removed must say how", "--removed web=1,books=1")
    Path("sources.toml").write_text("group_size = 3\n" + SOURCES)
    assert_one_sentence(groupdp("epsilon sources.toml"), "line 1: group_size must say", "{ web = 1, books = 1 }")


def test_an_exchange_may_leave_one_side_of_the_sources_out(folder):
    run = library.DPSGD(library.PoissonSources(rates={"web": 0.01, "books": 0.002}), noise_multiplier=2.0, steps=100)
    exact = library.epsilon(run, delta=1e-6, removed={"web": 1})
    answer = groupdp("epsilon sources.toml --removed web=1 --json").json
    assert answer["epsilon"] == {"lower": exact.lower, "upper": exact.upper}
    assert "1 of web and 0 of books removed and 0 added" in groupdp("epsilon sources.toml --removed web=1").output
    certified = groupdp("certify sources.toml --removed web=1 --added books=1 --json").json
    assert certified["outcome"] == "verified"


def test_the_help_of_a_statement_promises_no_default_group(folder):
    said = " ".join(groupdp("statement --help").output.replace("│", " ").split())
    assert "default 1)" not in said
    assert "(web=3,books=5 for several sources); needed here or in the run file." in said
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
    assert_one_sentence(refused, "sampling must be given, like --sampling shuffled", "poisson", "fixed-batch")
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


@pytest.mark.parametrize(
    ("vary", "name", "values"),
    [
        ("steps=100:300:3", "steps", [100, 200, 300]),
        ("steps=1e2:3e2:3", "steps", [100, 200, 300]),
        ("group_size=1:31:4", "group_size", [1, 11, 21, 31]),
        ("sampling_rate=1/100,2/100", "sampling_rate", [0.01, 0.02]),
        ("noise-multiplier=2:4:3", "noise_multiplier", [2.0, 3.0, 4.0]),
    ],
)
def test_a_sweep_takes_integers_and_fractions_where_the_field_does(folder, vary, name, values):
    rows = groupdp(f"sweep run.toml --vary {vary} --json").json["rows"]
    assert [row[name] for row in rows] == values
    assert {type(row[name]) for row in rows} == {type(values[0])}


@pytest.mark.parametrize("vary", ["group_size=1:32:4", "steps=0.5:2.5:3", "batch_size=1:2:3"])
def test_a_range_that_is_not_whole_is_refused_as_such(folder, vary):
    name, _, values = vary.partition("=")
    first, last, count = values.split(":")
    refused = groupdp(f"sweep run.toml --vary {vary}")
    assert_one_sentence(refused, f"integers for {name}, got '{vary}'", f"{count} values from {first} to {last}")


@pytest.mark.parametrize(
    "vary",
    [
        "steps=1:2:1",
        "steps=1:nan:3",
        "sampling_rate=1/0",
        "steps=1:1e999999999:3",
        "steps=1e-999999999:2:3x",
        "steps=1:1/0:3",
    ],
)
def test_other_ranges_are_refused_in_one_sentence(folder, vary):
    assert_one_sentence(groupdp(f"sweep run.toml --vary {vary}"), "vary must look like", vary)


def test_a_calibration_that_a_sampling_has_not_names_the_one_it_has(folder):
    refused = groupdp("calibrate batch run.toml --epsilon 2")
    assert_one_sentence(refused, "got 'poisson'", "groupdp calibrate rate")
    assert "PoissonSampling(" not in refused.errors
    line = "--noise-multiplier 4 --steps 10 --delta 1e-6 --epsilon 2 --group-size 1"
    fixed = "--sampling fixed-batch --batch-size 5 --dataset-size 500"
    assert_one_sentence(groupdp(f"calibrate rate {fixed} {line}"), "groupdp calibrate batch")
    poisson = "--sampling poisson --sampling-rate 0.01"
    assert_one_sentence(groupdp(f"calibrate batch {poisson} {line}"), "groupdp calibrate rate")


def test_a_claim_with_its_sides_exchanged_is_refused_in_decimals(folder):
    assert groupdp("certify run.toml -o claim.json").status == 0
    claim = json.loads(Path("claim.json").read_text())
    sides = claim["claim"]["epsilon"]
    claim["claim"]["epsilon"] = {"lower": sides["upper"], "upper": sides["lower"]}
    Path("claim.json").write_text(json.dumps(claim))
    refused = groupdp("verify claim.json")
    assert_one_sentence(refused, f"must be at least {sides['upper']}, the lower side, got {sides['lower']}.")
    claim["claim"] |= {"epsilon": sides, "delta": "1e-330"}
    Path("claim.json").write_text(json.dumps(claim))
    assert_one_sentence(groupdp("verify claim.json"), "delta must be from 1e-320 to 1, got 1e-330")


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("epsilon run.toml --save ''", "save"),
        ("calibrate noise run.toml --epsilon 2 --save ''", "save"),
        ("curve run.toml --plot ''", "plot"),
        ("curve run.toml --csv ''", "csv"),
        ("sweep run.toml --vary steps=1,2 --out ''", "out"),
        ("sweep run.toml --vary steps=1,2 --plot ''", "plot"),
        ("statement run.toml --out ''", "out"),
        ("spend run.toml --plot ''", "plot"),
        ("tradeoff run.toml --plot ''", "plot"),
        ("people rows.csv --by user_id --run run.toml --out ''", "out"),
        ("people rows.csv --by user_id --run run.toml --plot ''", "plot"),
        ("count rows.csv --by user_id --out ''", "out"),
        ("certify run.toml --out ''", "out"),
        ("figures --out ''", "out"),
    ],
)
def test_a_file_without_a_name_is_refused(folder, line, name):
    before = sorted(folder.iterdir())
    assert_one_sentence(groupdp(line), f"{name} must ")
    assert sorted(folder.iterdir()) == before


def test_data_without_rows_or_with_a_zero_say_so(folder):
    Path("header.csv").write_text("user_id,x\n")
    refused = groupdp("count header.csv --by user_id")
    assert_one_sentence(refused, "must have at least one row")
    assert "source" not in refused.errors
    for text, options, line in (("n\n3\n0\n2\n", "", 3), ("n;p\n3;1\n00;1\n", "--counts n", 3), ("0\n1\n", "", 1)):
        Path("n.csv").write_text(text)
        assert_one_sentence(groupdp(f"people n.csv --run run.toml {options}"), "at least 1", f"in line {line}")


def test_the_help_of_cap_has_its_defaults():
    said = " ".join(groupdp("cap --help").output.replace("│", " ").split())
    assert "(default add-or-remove)" in said
    assert "The delta of (epsilon, delta)-DP; needed here or in the run file." in said


def test_rates_of_sources_are_written_plainly(folder):
    for line in ("epsilon sources.toml", "statement sources.toml", "statement sources.toml --format latex"):
        said = " ".join(groupdp(f"{line} --group-size web=1,books=1").output.split())
        assert "web: 0.01, books: 0.002" in said
        assert "'web'" not in said


@pytest.mark.parametrize("command", ["", "epsilon", "calibrate noise"])
def test_help_is_a_command_too(command):
    assert groupdp(f"help {command}") == groupdp(f"{command} --help")
    assert groupdp(f"help {command}").status == 0


def test_sources_that_are_left_out_are_told_as_nobody(folder):
    told = groupdp("epsilon sources.toml --group-size web=3").output
    assert "up to 3 of web and 0 of books" in told


def test_a_run_is_saved_under_a_name_and_a_group_has_one_limit(folder):
    assert_one_sentence(groupdp("epsilon two.toml --save -"), "save must be the name of a file")
    assert not Path("-").exists()
    for size in ("100001", "9" * 30):
        assert_one_sentence(groupdp(f"epsilon two.toml --group-size {size}"), "at most 100000")


def test_deltas_below_every_double_have_a_logarithm(folder):
    line = "delta --sampling-rate 0.01 --noise-multiplier 1 --steps 2000 --group-size 9 --epsilon"
    assert "log delta is at most -3821.15" in groupdp(f"{line} 4000").output
    assert "log delta" not in groupdp(f"{line} 40").output
