"""One run for every command: files, options that override them, phases, sources."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

import groupdp as library
from command_line import FLAGS, RUN, assert_one_sentence, groupdp
from groupdp.cli.application import COMMANDS
from groupdp.run_file import read_run_file

SCRIPT = Path(sys.executable).with_name("groupdp")


def epsilon(line: str) -> dict:
    return groupdp(f"epsilon {line} --json").json


def test_a_file_and_its_options_are_the_same_run(run_file):
    assert epsilon(str(run_file)) == epsilon(FLAGS)


@pytest.mark.parametrize(
    ("options", "same"),
    [
        ("--group-size 9", FLAGS.replace("--group-size 3", "--group-size 9")),
        ("--noise-multiplier 4", FLAGS.replace("--noise-multiplier 2", "--noise-multiplier 4")),
        ("--epochs 2", FLAGS.replace("--steps 500", "--steps 200")),
        ("--delta 1e-5 --adjacency add", FLAGS.replace("1e-6", "1e-5") + " --adjacency add"),
        ("--batch-size 256 --dataset-size 60000", FLAGS.replace("0.01", "256/60000")),
        (
            "--sampling fixed-batch --batch-size 5 --dataset-size 500",
            FLAGS.replace("--sampling-rate 0.01", "--sampling fixed-batch --batch-size 5 --dataset-size 500"),
        ),
    ],
)
def test_options_override_the_file(run_file, options, same):
    assert epsilon(f"{run_file} {options}") == epsilon(same)


def test_poisson_from_what_people_know():
    line = "--sampling poisson --batch-size 256 --dataset-size 60000 --epochs 15 --noise-multiplier 1 --delta 1e-5"
    answer = epsilon(f"{line} --group-size 1")
    assert answer["run"]["sampling_rate"] == 256 / 60000
    assert answer["run"]["steps"] == 15 * 235  # 234.4 steps in each pass
    assert_one_sentence(
        groupdp(f"epsilon {line.removeprefix('--sampling poisson')}"), "sampling must be given, like --sampling"
    )


def test_several_phases_on_the_command_line(tmp_path):
    phases = (
        "--phase sampling=poisson,sampling_rate=1/100,noise_multiplier=2,steps=100 "
        "--phase sampling=fixed-batch,batch_size=5,dataset_size=500,noise_multiplier=4,epochs=1 --delta 1e-6"
    )
    run = [
        library.DPSGD(library.PoissonSampling(rate=0.01), noise_multiplier=2.0, steps=100),
        library.DPSGD(library.FixedBatchSampling(batch_size=5, dataset_size=500), noise_multiplier=4.0, steps=100),
    ]
    exact = library.epsilon(run, delta=1e-6, group_size=2)
    answer = epsilon(f"{phases} --group-size 2")
    assert answer["epsilon"] == {"lower": exact.lower, "upper": exact.upper}
    assert "phase 2: fixed-size batches" in groupdp(f"epsilon {phases} --group-size 1").output
    for bad, words in (
        (f"{phases} --steps 5", "phase must describe whole phases"),
        ("--phase steps --delta 1e-6", "phase must be written name=value"),
        ("--phase sampling=poisson,steps=3,steps=4 --delta 1e-6", "each name once"),
        ("--phase sampling=poisson,sampling_rate=2,noise_multiplier=1,steps=3 --delta 1e-6", "sampling_rate must be"),
    ):
        assert_one_sentence(groupdp(f"epsilon {bad}"), words)


def test_sources_have_rates_and_groups_of_their_own():
    line = "--source web=0.01 --source books=1/1000 --noise-multiplier 2 --steps 100 --delta 1e-6"
    run = library.DPSGD(library.PoissonSources(rates={"web": 0.01, "books": 0.001}), noise_multiplier=2.0, steps=100)
    exact = library.epsilon(run, delta=1e-6, group_size={"web": 3, "books": 5})
    assert epsilon(f"{line} --group-size web=3,books=5")["epsilon"] == {"lower": exact.lower, "upper": exact.upper}
    assert_one_sentence(groupdp(f"epsilon {line} --group-size web=3,films=5"), "group_size")
    assert_one_sentence(groupdp(f"epsilon {line} --source web=0.5"), "each name once")


@pytest.mark.parametrize(
    "line",
    [
        FLAGS,
        "--sampling poisson --batch-size 256 --dataset-size 60000 --epochs 1 --noise-multiplier 2 --delta 1e-6 "
        "--group-size 1",
        "--source web=0.01 --source books=1/1000 --noise-multiplier 2 --steps 100 --delta 1e-6 "
        "--group-size web=3,books=5",
        "--sampling balls-in-bins --batches 10 --noise-multiplier 3 --steps 20 --delta 1e-6 --group-size 1",
        "--sampling fixed-batch --batch-size 5 --dataset-size 500 --noise-multiplier 3 --steps 20 --delta 1e-6 "
        "--adjacency substitute --microbatch-size 2 --group-size 2",
        "--phase sampling=poisson,sampling_rate=1/100,noise_multiplier=2,steps=100 "
        "--phase sampling=poisson,sampling_rate=1/50,noise_multiplier=4,steps=10 --delta 1e-6 --group-size 1",
    ],
)
def test_what_is_saved_is_the_same_run(tmp_path, line):
    path = tmp_path / "saved.toml"
    first = groupdp(f"epsilon {line} --save {path} --json")
    assert (first.status, first.errors) == (0, f"wrote {path}\n")
    assert epsilon(str(path)) == json.loads(first.output)
    before = path.read_bytes()
    assert_one_sentence(groupdp(f"epsilon {line} --save {path}"), "save must be a new file", "--force")
    assert path.read_bytes() == before
    assert groupdp(f"epsilon {path} --group-size 1 --save {path} --force --json").status in (0, 2)


def test_a_file_from_standard_input_and_with_a_byte_order_mark(tmp_path, monkeypatch):
    class Input:
        buffer = io.BytesIO(RUN.encode())

    monkeypatch.setattr(sys, "stdin", Input)
    assert epsilon("-") == epsilon(FLAGS)
    marked = tmp_path / "marked.toml"
    marked.write_bytes(b"\xef\xbb\xbf" + RUN.encode())
    assert read_run_file(marked).delta == 1e-6


@pytest.mark.parametrize(
    "command",
    [
        "epsilon {run}",
        "epsilon {run} --explain",
        "delta {run} --epsilon 2",
        "curve {run} --group-sizes 1:3",
        "calibrate noise {run} --epsilon 2",
        "calibrate steps {run} --epsilon 2",
        "calibrate rate {run} --epsilon 2",
        "calibrate group {run} --epsilon 2",
        "sweep {run} --vary steps=100,200 --vary noise_multiplier=1:4:3",
        "tradeoff {run}",
        "statement {run} --short",
        "spend {run} --target 1",
        "audit worst-case {run} --steps 100 --trials 100 --delta 1e-2 --importance-samples 20",
        "people {counts} --counts n --run {run}",
        "cap {counts} --counts n --epsilon 8 --delta 1e-6 --batch-size 4 --steps 100 --minimum-share 0.5",
        "count {rows} --by user_id --out {new}.csv",
        "bound {rows} --by user_id --key example_id --at-most 2 --out {new}.csv",
        "verify {claim}",
        "import-run {history} -o {new}.toml",
    ],
)
def test_every_answer_fits_the_terminal_and_loses_no_number(run_file, tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    files = inputs(run_file)
    monkeypatch.delenv("COLUMNS", raising=False)
    whole = groupdp(command.format(**files, new="whole"))
    assert whole.status == 0, whole
    for columns in (80, 60):
        monkeypatch.setenv("COLUMNS", str(columns))
        narrow = groupdp(command.format(**files, new="whole") + (" --force" if "{new}" in command else ""))
        assert fits(narrow.output, columns)
        missing = {word for word in whole.output.split() if any(map(str.isdigit, word))} - set(narrow.output.split())
        assert {word for word in missing if word.rstrip(":") not in narrow.output} == set()


def fits(text, columns):
    """Whether no line passes the width, unless it is one word that cannot be broken, such as a digest."""
    return [line for line in text.splitlines() if len(line) > columns and len(line.split()) > 2] == []


def inputs(run_file):
    """Files for commands that read some, under short names in the working directory."""
    Path("n.csv").write_text("n,people\n" + "".join(f"{n},{40 // n}\n" for n in (1, 2, 3, 5, 8, 12)))
    rows = [f"u{user},{user}-{row}\n" for user in range(9) for row in range(user + 1)]
    Path("rows.csv").write_text("user_id,example_id\n" + "".join(rows))
    Path("history.json").write_text('{"history": [[1.0, 0.01, 2000]], "mechanism": "prv"}')
    claim = groupdp(f"certify {run_file} -o claim.json --force")
    assert claim.status == 0, claim
    return {
        "run": run_file,
        "counts": "n.csv",
        "rows": "rows.csv",
        "history": "history.json",
        "claim": "claim.json",
    }


@pytest.mark.parametrize("columns", [80, 60])
def test_what_certify_says_fits_the_terminal(run_file, tmp_path, monkeypatch, columns):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", str(columns))
    said = groupdp(f"certify {run_file} -o claim.json")
    assert said.status == 0
    assert "verified" in said.errors
    assert fits(said.errors, columns)


@pytest.mark.parametrize("columns", [80, 60])
def test_the_first_screen_fits_the_terminal(monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    assert fits(groupdp("").output, columns)


def every_command():
    """All commands, those in groups too."""
    for name in COMMANDS:
        yield name
        if name == "calibrate":
            yield from (f"calibrate {one}" for one in ("noise", "steps", "rate", "batch", "group"))
        if name == "audit":
            yield from (f"audit {one}" for one in ("worst-case", "scores"))


@pytest.mark.parametrize("columns", [80, 60])
@pytest.mark.parametrize("command", list(every_command()))
def test_every_help_fits_the_terminal_and_its_example_can_be_pasted(command, columns, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(columns))
    said = groupdp(f"{command} --help").output
    assert max(map(len, said.splitlines())) <= columns
    pasted = said.split("Example:")[1].replace("\\", "").split()
    assert pasted[: 1 + len(command.split())] == ["groupdp", *command.split()] or command in ("calibrate", "audit")
    assert "…" not in said
    continued = said.split("Example:")[1].strip().splitlines()
    assert all(line.rstrip().endswith("\\") for line in continued[:-1])


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("--sigma", "--noise-multiplier"),
        ("--noise", "--noise-multiplier"),
        ("--k", "--group-size"),
        ("--detla", "--delta"),
    ],
)
def test_an_unknown_option_names_the_one_that_is_meant(given, meant):
    assert_one_sentence(groupdp(f"epsilon {given} 1"), f"No such option: {given}", meant)


def test_a_phase_with_a_sampling_rate_is_poisson_as_it_is_without_phases():
    answer = epsilon("--phase sampling_rate=0.01,noise_multiplier=2,steps=500 --delta 1e-6 --group-size 3")
    assert answer["run"]["sampling"] == "poisson"
    line = "epsilon --phase batch_size=10,dataset_size=100,noise_multiplier=2,steps=500 --delta 1e-6"
    assert_one_sentence(groupdp(line), "sampling must be given, like --sampling")


def test_spend_goes_by_epochs_and_says_where_a_target_is_not_reached(run_file):
    answer = groupdp(f"spend {run_file} --json").json
    assert [one["steps"] for one in answer["points"] if one["epoch"]] == [100, 200, 300, 400, 500]
    assert answer["points"][0]["steps"] == 1
    said = groupdp(f"spend {run_file} --target 1000").output
    assert "is not reached: all 500 steps are within it" in said
    assert "after epoch" in said


def test_certify_and_import_run_answer_in_json_too(run_file, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    certified = groupdp(f"certify {run_file} --json").json
    assert certified["outcome"] == "verified"
    Path("claim.json").write_text(certified["certificate"])
    assert groupdp("verify claim.json --json").json["sha256"] == certified["sha256"]
    Path("history.json").write_text('{"history": [[1.0, 0.01, 2000]], "mechanism": "prv"}')
    imported = groupdp("import-run history.json --delta 1e-6 -o new.toml --json").json
    assert imported["run"][0]["steps"] == 2000
    assert imported["missing"] == ["group_size"]


def test_an_answer_begins_with_the_run_as_it_was_understood(run_file):
    lines = groupdp(f"epsilon {run_file} --epochs 2").output.replace("\n  ", " ").splitlines()
    assert lines[0] == "Poisson sampling, sampling rate 0.01, noise multiplier 2.0, 200 steps (2 epochs)"
    assert lines[1] == "groups of up to 3, add-or-remove"


def test_a_question_that_says_little_is_commented(run_file):
    assert "a group of size 0 changes nothing" in groupdp(f"epsilon {run_file} --group-size 0").output
    assert "with 0 steps nothing is released" in groupdp(f"epsilon {run_file} --steps 0").output
    assert "Note" not in groupdp(f"epsilon {run_file}").output


def test_the_old_spelling_of_the_short_statement_says_the_new_one(run_file):
    old, new = (groupdp(f"{line} --prior 0.1") for line in (f"explain {run_file}", f"statement {run_file} --short"))
    assert old.output == new.output
    assert "groupdp statement --short" in old.errors
    assert new.errors == ""
    assert "explain" not in groupdp("--help").output
    for refused, words in (("--prior 0.1", "together with --short"), ("--short -o a.md", "left out with --short")):
        assert_one_sentence(groupdp(f"statement {run_file} {refused}"), words)


def test_commands_are_in_four_panels():
    said = groupdp("--help").output
    titles = [line.strip("╭─╮ ") for line in said.splitlines() if line.startswith("╭")]
    assert titles == ["Options", "The number", "The data", "For readers and reviewers", "The tool"]
    for name in COMMANDS:
        helped = groupdp(f"{name} --help").output
        assert "<bool>" not in helped, name
        panels = helped.split("╭─ ")
        assert all("--out " not in panel or panel.startswith("Output") for panel in panels[1:] if "│ --out" in panel)


def test_explain_says_the_same_as_epsilon_explain(run_file):
    said = groupdp(f"statement {run_file} --short").output.splitlines()
    sentences = [line for line in said if line.startswith("- ")]
    assert len(sentences) >= 2
    asked = groupdp(f"epsilon {run_file} --explain").output
    assert all(sentence in asked for sentence in sentences)
    assert groupdp(f"epsilon {run_file} --explain --json").json["explanation"]


def test_spend_ends_at_the_run_s_epsilon_and_finds_the_step_of_a_target(run_file, tmp_path):
    answer = groupdp(f"spend {run_file} --target 1 --json").json
    assert answer["points"][-1] == {"steps": 500, "epoch": 5, "epsilon": epsilon(str(run_file))["epsilon"]}
    last = answer["last_step_within"]
    assert epsilon(f"{run_file} --steps {last}")["epsilon"]["upper"] <= 1.0
    assert epsilon(f"{run_file} --steps {last + 1}")["epsilon"]["upper"] > 1.0
    picture = tmp_path / "spend.svg"
    assert groupdp(f"spend {run_file} --plot {picture}").errors == f"wrote {picture}\n"
    assert_one_sentence(groupdp(f"spend {run_file} --plot {picture}"), "plot must be a new file", "--force")


@pytest.mark.parametrize(
    ("flags", "name"),
    [
        ("--removed 3 --added 2 --group-size 4", "group_size"),
        ("--removed 3 --adjacency substitute", "adjacency"),
    ],
)
def test_two_descriptions_of_the_neighbours_are_refused(run_file, flags, name):
    outcome = groupdp(f"epsilon {run_file} {flags}")
    assert_one_sentence(outcome)
    assert outcome.errors.startswith(f"{name} must be left out")


def test_a_sweep_tells_what_does_not_vary(run_file):
    told = groupdp(f"sweep {run_file} --vary noise_multiplier=1,2 --vary group_size=1,2").output
    above = told[: told.index("epsilon for every combination")]
    assert "steps" in above
    assert "noise multiplier" not in above
    assert "groups of up to" not in above


def test_an_audit_tells_its_run_and_its_own_delta(run_file):
    told = groupdp(f"audit worst-case {run_file} --steps 300 --trials 100").output
    assert "Poisson sampling" in told
    assert "audited at delta = 0.001 (--delta), not at the run's 1e-06" in told


def test_a_rate_with_more_digits_than_a_double_is_answered_and_saved_exactly(tmp_path):
    path = tmp_path / "run.toml"
    run = "--sampling poisson --sampling-rate 0.1234567890123456789 --noise-multiplier 4 --steps 10"
    outcome = groupdp(f"epsilon {run} --delta 1e-6 --group-size 1 --save '{path}'")
    assert outcome.status == 0, outcome
    assert '"1234567890123456789/10000000000000000000"' in path.read_text()
    assert groupdp(f"epsilon '{path}' --json").json == groupdp(f"epsilon {run} --delta 1e-6 --group-size 1 --json").json


@pytest.mark.parametrize(("size", "noted"), [(12, True), (15, False), (20, False), (21, True)])
def test_people_notes_a_run_of_another_size_than_the_table(tmp_path, monkeypatch, size, noted):
    """20 examples, 5 of them of one person: a run states 20, or 15 where that person is the one that is added."""
    monkeypatch.chdir(tmp_path)
    rows = [
        f"{person},{person}{index}"
        for person, many in (("a", 5), ("b", 4), ("c", 4), ("d", 4), ("e", 3))
        for index in range(many)
    ]
    Path("rows.csv").write_text("user,example\n" + "\n".join(rows) + "\n")
    run = f"--sampling poisson --batch-size 2 --dataset-size {size} --noise-multiplier 2 --steps 10 --delta 1e-3"
    output = " ".join(groupdp(f"people rows.csv --by user {run}").output.split())
    assert (f"the run draws from {size} examples, and the table has 20" in output) == noted
