"""`groupdp statement`: formats, destinations, and what is refused."""

from __future__ import annotations

import json
import shlex

import pytest

from command_line import assert_one_sentence, groupdp
from groupdp import statement
from paths import ROOT

EXAMPLE = shlex.quote(str(ROOT / "examples" / "run.toml"))
SHORT = """
delta = 1e-5
group_size = 2
[[phase]]
sampling = "poisson"
sampling_rate = 0.01
noise_multiplier = 4.0
steps = 1000
"""


@pytest.fixture
def run_file(tmp_path):
    path = tmp_path / "run.toml"
    path.write_text(SHORT)
    return path


def test_markdown_is_the_default(run_file):
    outcome = groupdp(f"statement {run_file}")
    assert (outcome.status, outcome.errors) == (0, "")
    assert outcome.output.startswith("# Privacy statement: ")


def test_the_example_file_works():
    assert "any group of up to 9 examples" in groupdp(f"statement {EXAMPLE}").output


def test_text_and_json(run_file):
    assert groupdp(f"statement {run_file} --format text").output.startswith("PRIVACY STATEMENT: ")
    answer = groupdp(f"statement {run_file} --json").json
    assert answer["group_size"] == 2
    assert groupdp(f"statement {run_file} --format json").json == answer


@pytest.mark.parametrize(("columns", "most"), [("60", 60), ("200", 80)])
def test_text_fits_the_terminal_and_is_never_wider_than_a_page(run_file, monkeypatch, tmp_path, columns, most):
    monkeypatch.setenv("COLUMNS", columns)
    widths = [len(line) for line in groupdp(f"statement {run_file} --format text").output.splitlines()]
    assert most - 10 < max(widths) <= most
    groupdp(f"statement {run_file} --out {tmp_path / 'statement.txt'}")
    written = (tmp_path / "statement.txt").read_text().splitlines()
    assert 70 < max(map(len, written)) <= 80


def test_out_writes_a_file_and_names_it(run_file, tmp_path):
    target = tmp_path / "new" / "statement.json"
    assert groupdp(f"statement {run_file} --json --out {target}") == (0, "", f"wrote {target}\n")
    assert json.loads(target.read_text())["delta"] == 1e-5
    assert sorted(path.name for path in target.parent.iterdir()) == ["statement.json"]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("steps = 1000", "stepz = 1000", ("line 8", "stepz")),
        ("steps = 1000", "", ("line 4", "steps")),
        ("delta = 1e-5", 'delta = "1e-5"', ("line 2", "delta")),
        ("sampling_rate = 0.01", "sampling_rate = 5", ("line 6", "sampling_rate")),
        ("delta = 1e-5", "delta = ", ("valid TOML", "line 2")),
    ],
)
def test_a_bad_run_file_is_one_sentence_with_its_name(run_file, old, new, words):
    run_file.write_text(SHORT.replace(old, new))
    assert_one_sentence(groupdp(f"statement {run_file}"), "run.toml", *words)


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ("", "a run file"),
        ("missing.toml", "missing.toml"),
        (".", "readable"),
        (f"{EXAMPLE} --format html", "format must be"),
    ],
)
def test_bad_arguments_are_one_sentence(arguments, word):
    assert_one_sentence(groupdp(f"statement {arguments}"), word)


def test_a_bad_destination_is_refused_before_any_work(run_file, tmp_path, monkeypatch):
    monkeypatch.setattr(statement, "make_statement", lambda *_, **__: pytest.fail("worked first"))
    assert_one_sentence(groupdp(f"statement {run_file} --out {tmp_path}"), "out must be a file")


def test_ctrl_c_leaves_no_file(run_file, tmp_path, monkeypatch):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(statement, "make_statement", stop)
    outcome = groupdp(f"statement {run_file} --out {tmp_path}/statement.md")
    assert outcome.status == 130
    assert [path.name for path in tmp_path.iterdir()] == ["run.toml"]


def test_an_exchange_between_sources_is_stated(tmp_path):
    path = tmp_path / "sources.toml"
    path.write_text(
        "delta = 1e-6\n[[phase]]\nsampling = 'poisson-sources'\nsampling_rates = { web = 0.01, books = 0.002 }\n"
        "noise_multiplier = 2.0\nsteps = 500\n"
    )
    both = groupdp(f"statement {path} --removed web=1 --added books=1 --format text")
    assert both.status == 0
    assert "at most 1 example from web and 1 from books" in " ".join(both.output.split())
    one = groupdp(f"statement {path} --removed web=2 --format text")
    assert one.status == 0
    assert "at most 2 examples from web in the dataset" in " ".join(one.output.split())


@pytest.mark.parametrize("form", ["markdown", "text", "latex"])
def test_a_statement_about_nobody_says_so(run_file, form):
    note = "Note: a group of size 0 changes nothing"
    assert note in " ".join(groupdp(f"statement {run_file} --group-size 0 --format {form}").output.split())
    assert "Note:" not in groupdp(f"statement {run_file} --format {form}").output


def test_a_poisson_claim_above_the_proved_bound_is_not_called_unproved():
    """Balls in bins at noise 4: the bound is 2.0414, and the 2.0556 of Poisson accounting is above it."""
    asked = "--sampling balls-in-bins --batches 100 --noise-multiplier 4 --epochs 20 --delta 1e-6 --group-size 4"
    answer = groupdp(f"epsilon {asked} --json").json
    assert answer["epsilon"]["upper"] < 2.042
    assert "poisson_claim_not_a_guarantee" not in answer
    assert "Poisson accounting" not in groupdp(f"epsilon {asked}").output
    assert "poisson_claim_not_a_guarantee" not in groupdp(f"statement {asked} --format json").json
    larger = asked.replace("--group-size 4", "--group-size 10")
    assert "That is not a guarantee" in groupdp(f"epsilon {larger}").output
