"""Errors and remarks say what to type, and answers come before the names of files."""

import subprocess
import sys

import pytest

from command_line import assert_one_sentence, groupdp

RUN = "--sampling-rate 0.01 --noise-multiplier 1 --steps 500"


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (f"epsilon {RUN} --group-size 2", ("delta must be given", "--delta 1e-6")),
        (f"epsilon {RUN} --delta 1e-6", ("group_size must be given", "--group-size 9")),
        ("epsilon --sampling-rate 0.01 --noise-multiplier 1 --group-size 2", ("steps must", "--steps", "--epochs")),
        ("epsilon --sampling-rate 0.01 --steps 10 --group-size 2", ("noise_multiplier must", "--noise-multiplier")),
        (
            "epsilon --sampling poisson --noise-multiplier 1 --steps 10 --group-size 2",
            ("sampling_rate must", "--sampling-rate", "--batch-size", "--dataset-size"),
        ),
        (
            "epsilon --phase sampling=poisson,sampling-rate=0.01,steps=10 --group-size 2",
            ("noise_multiplier must", "noise_multiplier=", "--phase"),
        ),
        ("epsilon --batch-size 10 --noise-multiplier 1 --steps 10", ("sampling must", "--sampling shuffled")),
        ("epsilon --group-size 2 --delta 1e-6", ("run must", "--sampling-rate 0.01")),
        (
            "epsilon --mechanism approximate-dp --claimed-epsilon 1 --group-size 2",
            ("per_person must", "--per-person,", "per_person = false in a run file"),
        ),
        ("bound rows.csv --by user --out kept.csv", ("at_most must", "--at-most 8", "--at-most-per", "--run RUN.TOML")),
        ("bound rows.csv --by user --at-most 3 --run r.toml --out kept.csv", ("at_most must be given once",)),
        ("bound rows.csv --by user --at-most auto --out kept.csv", ("epsilon must", "--epsilon")),
        ("plan rows.csv --by user --epsilon 8 --batch-size 4", ("delta must", "--delta", "--run RUN.TOML")),
        ("cap rows.csv --by user --epsilon 8 --delta 1e-6", ("batch_size must", "--batch-size", "--run RUN.TOML")),
        ("doctor indices.csv --sampling poisson --dataset-size 100", ("sampling_rate must", "--sampling-rate")),
        (f"calibrate noise {RUN}", ("Missing option '--epsilon'", "like --epsilon 8")),
        ("ledger new", ("Missing option '--delta'", "like --delta 1e-6")),
        ("verify", ("Missing argument", "groupdp verify claim.json")),
    ],
)
def test_an_error_about_something_missing_names_the_option(command, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.csv").write_text("user,text\na,1\na,2\nb,3\n")
    assert_one_sentence(groupdp(command), *words)


def test_the_answer_is_printed_before_the_name_of_the_file_that_was_saved(tmp_path):
    command = [sys.executable, "-m", "groupdp", "epsilon", *RUN.split(), *["--delta", "1e-6", "--group-size", "2"]]
    done = subprocess.run(
        [*command, "--save", "run.toml"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert done.returncode == 0
    assert done.stdout.rstrip().endswith("wrote run.toml")
    assert (tmp_path / "run.toml").exists()


def test_a_question_that_is_refused_saves_no_run(tmp_path):
    assert_one_sentence(groupdp(f"epsilon {RUN} --group-size 2 --save {tmp_path / 'run.toml'}"), "delta must")
    assert not (tmp_path / "run.toml").exists()


@pytest.fixture
def bounded(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [f"{person},{number}" for person in range(40) for number in range(person % 9 + 1)]
    (tmp_path / "rows.csv").write_text("\n".join(["user,text", *rows]) + "\n")
    assert groupdp("bound rows.csv --by user --at-most 6 --out bounded.csv").status == 0


@pytest.mark.parametrize("command", ["epsilon", "statement --format text"])
def test_a_group_larger_than_everybody_in_the_data_is_remarked_on(command, bounded):
    run = f"{RUN} --delta 1e-3 --data bounded.csv"
    told = " ".join(groupdp(f"{command} {run} --group-size 8").output.split())
    assert (
        "group_size is 8, and nobody has more than 6 examples in bounded.csv: --group-size 6 covers everybody" in told
    )
    assert "Note:" not in groupdp(f"{command} {run}").output


def test_a_plan_takes_what_is_left_open_from_a_run_file(bounded):
    tmp = "run.toml"
    groupdp(
        f"epsilon --sampling poisson --batch-size 16 --dataset-size 150 --noise-multiplier 1 --steps 20 --delta 1e-3 "
        f"--group-size 6 --save {tmp}"
    )
    options = "--caps 2 --ways examples --minimum-share 0.1"
    of_file = groupdp(f"plan rows.csv --by user --epsilon 8 --run {tmp} {options} --json")
    typed = groupdp(f"plan rows.csv --by user --epsilon 8 --delta 1e-3 --batch-size 16 --steps 20 {options} --json")
    assert of_file.status == 0, of_file.errors
    assert of_file.output == typed.output
    other = groupdp(f"plan rows.csv --by user --epsilon 8 --run {tmp} --steps 40 {options} --json")
    assert other.output != typed.output


def test_a_run_that_cannot_be_saved_is_refused_before_any_work(tmp_path):
    (tmp_path / "file").write_text("")
    refused = groupdp(f"epsilon {RUN} --delta 1e-6 --group-size 2 --save {tmp_path / 'file' / 'run.toml'}")
    assert_one_sentence(refused, "save must be")


def test_a_command_that_ends_with_a_verdict_saves_its_run(tmp_path):
    run = tmp_path / "run.toml"
    audit = "audit worst-case --sampling-rate 0.2 --noise-multiplier 4 --steps 2 --group-size 1 --trials 200"
    assert groupdp(f"{audit} --save {run}").status in (0, 1)
    assert "noise_multiplier = 4.0" in run.read_text(encoding="utf-8")
