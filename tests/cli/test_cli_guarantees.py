"""`groupdp epsilon` and `groupdp delta`, the help, the version, and how errors look."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import pytest

import groupdp as library
from command_line import assert_one_sentence, groupdp
from groupdp import guarantees
from groupdp._version import VERSION

POISSON = "--sampling-rate 0.01 --noise-multiplier 1 --steps 2000 --group-size 9"
FIXED = "--sampling fixed-batch --batch-size 500 --dataset-size 50000 --noise-multiplier 2 --epochs 20 --group-size 9"
#: Every way of being no number for an option that wants one.
NOT_NUMBERS = ("nan", "inf", "-inf", "Infinity", "1e400", "abc", "''", "0x10", "1_000", "1,5", "1/0", "1/", "١")


def test_epsilon_of_the_paper_s_example_in_json():
    answer = groupdp(f"epsilon {POISSON} --delta 1e-6 --json").json
    assert 40.80104 <= answer["epsilon"]["lower"] <= answer["epsilon"]["upper"] <= 40.80105
    assert answer["remove"] == answer["epsilon"]
    assert 29.9 < answer["add"]["lower"] <= answer["add"]["upper"] < 30.0
    assert answer["run"] == {
        "sampling": "poisson",
        "sampling_rate": 0.01,
        "noise_multiplier": 1.0,
        "steps": 2000,
        "microbatch_size": 1,
    }
    assert (answer["delta"], answer["group_size"], answer["adjacency"]) == (1e-6, 9, "add-or-remove")
    assert answer["version"] == VERSION


def test_json_keeps_full_precision():
    run = library.DPSGD(sampling=library.PoissonSampling(rate=0.01), noise_multiplier=1.0, steps=2000)
    exact = library.epsilon(run, delta=1e-6, group_size=9, adjacency="remove")
    answer = groupdp(f"epsilon {POISSON} --delta 1e-6 --json").json
    assert (answer["remove"]["lower"], answer["remove"]["upper"]) == (exact.lower, exact.upper)


def test_a_table_rounds_outward():
    outcome = groupdp(f"epsilon {POISSON} --delta 1e-6")
    answer = groupdp(f"epsilon {POISSON} --delta 1e-6 --json").json
    rows = {line.split()[0]: line.split()[1:] for line in outcome.output.splitlines() if len(line.split()) == 3}
    assert outcome.status == 0
    for name, key in (("add-or-remove", "epsilon"), ("add", "add"), ("remove", "remove")):
        lower, upper = rows[name]
        assert Decimal(lower) <= Decimal(answer[key]["lower"])
        assert Decimal(upper) >= Decimal(answer[key]["upper"])


def test_fixed_batches_by_batch_size_and_epochs_instead_of_steps():
    answer = groupdp(f"epsilon {FIXED} --delta 1e-6 --json").json
    assert answer["run"]["sampling"] == "fixed-batch"
    assert answer["run"]["steps"] == 2000
    assert 40.78 < answer["epsilon"]["lower"] <= answer["epsilon"]["upper"] < 40.79


@pytest.mark.parametrize(
    ("options", "steps"),
    [
        ("--sampling-rate 0.01 --epochs 20", 2000),
        ("--sampling-rate 0.1 --epochs 3", 30),
        ("--sampling-rate 0.07 --epochs 1", 15),  # 14.28...
        ("--sampling-rate 0.01 --epochs 0.005", 1),
        ("--sampling-rate 0.01 --epochs 2.5", 250),
        ("--sampling-rate 1 --epochs 3", 3),
        ("--sampling fixed-batch --batch-size 512 --dataset-size 50000 --epochs 20", 20 * 98),  # 97.65... in each pass
        ("--sampling fixed-batch --batch-size 3 --dataset-size 10 --epochs 1.5", 4 + 2),
        ("--sampling fixed-batch --batch-size 500 --dataset-size 50000 --epochs 2e1", 2000),
    ],
)
def test_epochs_are_exact_and_never_fewer_rounds_than_a_loader_runs(options, steps):
    answer = groupdp(f"epsilon {options} --noise-multiplier 5 --delta 1e-6 --group-size 1 --json").json
    assert answer["run"]["steps"] == steps


def test_delta_and_its_logarithm():
    answer = groupdp(f"delta {POISSON} --epsilon 40 --json").json
    assert answer["delta"]["upper"] == max(answer["add"]["upper"], answer["remove"]["upper"])
    assert answer["log_delta"]["lower"] <= math.log(answer["delta"]["upper"])
    assert answer["log_delta"]["upper"] >= math.log(answer["delta"]["lower"])
    back = groupdp(f"epsilon {POISSON} --delta {answer['delta']['upper']!r} --json").json
    assert back["epsilon"]["lower"] <= 40.0 * (1 + 1e-9)
    assert "1.80573307" in groupdp(f"delta {POISSON} --epsilon 40").output


def test_one_direction_only():
    both = groupdp(f"epsilon {POISSON} --delta 1e-6 --json").json
    answer = groupdp(f"epsilon {POISSON} --delta 1e-6 --adjacency add --json").json
    assert not {"add", "remove"} & answer.keys()
    assert answer["epsilon"] == both["add"]


@pytest.mark.parametrize("command", ["epsilon", "statement --short", "spend", "certify -o claim.json"])
def test_a_group_size_is_asked_for_and_never_assumed(command):
    refused = groupdp(f"{command} --sampling-rate 0.01 --noise-multiplier 1 --steps 20 --delta 1e-6")
    assert_one_sentence(refused, "group_size must be given", "--group-size 1 for one")
    assert_one_sentence(groupdp("delta --sampling-rate 0.01 --noise-multiplier 1 --steps 20 --epsilon 1"), "group_size")
    assert_one_sentence(
        groupdp("sweep --sampling-rate 0.01 --noise-multiplier 1 --delta 1e-6 --steps 1 --vary steps=1,2"), "group_size"
    )


def test_the_first_line_says_what_is_assumed():
    line = "--noise-multiplier 2 --steps 20 --delta 1e-6 --group-size 1"
    said = " ".join(groupdp(f"epsilon --sampling-rate 0.01 {line}").output.split())
    assert said.startswith("Assumes Poisson sampling; if the loader shuffles, type --sampling shuffled with")
    assert "for one example (group size 1)" in said
    phases = "noise_multiplier=2,steps=9 --delta 1e-6 --group-size 3"
    assert groupdp(f"epsilon --phase sampling_rate=0.01,{phases}").output.startswith("Assumes Poisson")
    for named in (
        f"--sampling poisson --sampling-rate 0.01 {line}",
        f"--batches 10 {line}",
        f"--phase sampling=poisson,sampling_rate=0.01,{phases}",
    ):
        assert "Assumes Poisson" not in groupdp(f"epsilon {named}").output


def test_an_infinite_epsilon_is_valid_json_and_a_word_in_the_table():
    line = "epsilon --sampling-rate 0.5 --noise-multiplier 0 --steps 5 --delta 1e-6 --group-size 1"
    answer = groupdp(f"{line} --json").json
    assert answer["epsilon"] == {"lower": "Infinity", "upper": "Infinity"}
    assert "infinity" in groupdp(line).output


def test_microbatching_doubles_the_sensitivity():
    once = groupdp(f"epsilon {POISSON} --delta 1e-6 --microbatch-size 4 --json").json
    half = groupdp(f"epsilon {POISSON} --delta 1e-6 --noise-multiplier 0.5 --json").json
    assert once["epsilon"]["lower"] <= half["epsilon"]["upper"]
    assert half["epsilon"]["lower"] <= once["epsilon"]["upper"]


# ------------------------------------------------------------------------------------------------- bad input

COMPLETE = {
    "sampling-rate": "0.01",
    "noise-multiplier": "1",
    "steps": "20",
    "delta": "1e-6",
    "group-size": "2",
    "microbatch-size": "1",
}


FIXED_BATCH = {"sampling_rate": None, "sampling": "fixed-batch"}


def line_with(command: str, **changes: str | None) -> str:
    options = dict(COMPLETE)
    if command == "delta":
        options["epsilon"] = options.pop("delta")
    for name, value in changes.items():
        name = name.replace("_", "-")
        if value is None:
            options.pop(name)
        else:
            options[name] = value
    return " ".join([command, *(f"--{name} {value}" for name, value in options.items())])


@pytest.mark.parametrize("command", ["epsilon", "delta"])
@pytest.mark.parametrize("name", ["sampling_rate", "noise_multiplier", "steps", "group_size", "microbatch_size"])
@pytest.mark.parametrize("value", NOT_NUMBERS)
def test_what_is_no_number_is_refused_by_name(command, name, value):
    assert_one_sentence(groupdp(line_with(command, **{name: value})), name, "must be")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("sampling_rate", "-1"),
        ("sampling_rate", "0"),
        ("sampling_rate", "1.7"),
        ("sampling_rate", "1e-400"),
        ("noise_multiplier", "-1"),
        ("noise_multiplier", "1e-9"),
        ("noise_multiplier", "1e300"),
        ("steps", "-5"),
        ("steps", "2.5"),
        ("steps", "1e3"),
        ("steps", "9" * 5000),
        ("steps", "99999999999999999999"),
        ("delta", "-1"),
        ("delta", "2"),
        ("delta", "0"),
        ("delta", "nan"),
        ("group_size", "-1"),
        ("group_size", "1.5"),
        ("group_size", "1000000000"),
        ("microbatch_size", "0"),
        ("adjacency", "replace"),
    ],
)
def test_what_is_out_of_range_is_refused_by_name(name, value):
    assert_one_sentence(groupdp(line_with("epsilon", **{name: value})), name, "must be")


@pytest.mark.parametrize("value", ["-1", "nan", "inf", "abc"])
def test_a_bad_epsilon_is_refused_by_name(value):
    assert_one_sentence(groupdp(line_with("delta", epsilon=value)), "epsilon must be")


@pytest.mark.parametrize(
    ("line", "word"),
    [
        (line_with("epsilon", sampling_rate=None), "run must be given: a run file, or options like --sampling-rate"),
        (line_with("epsilon", batch_size="5"), "batch_size must not be given together with sampling_rate"),
        (line_with("epsilon", dataset_size="5"), "dataset_size"),
        (line_with("epsilon", sampling_rate=None, batch_size="5"), "sampling must be given, like --sampling"),
        (
            line_with("epsilon", sampling_rate=None, batch_size="5", dataset_size="9"),
            "sampling must be given, like --sampling",
        ),
        (line_with("epsilon", **FIXED_BATCH, batch_size="5"), "dataset_size"),
        (line_with("epsilon", **FIXED_BATCH, batch_size="5", dataset_size="4"), "batch_size"),
        (line_with("epsilon", **FIXED_BATCH, batch_size="5", dataset_size="x"), "dataset_size"),
        (line_with("epsilon", **FIXED_BATCH, batch_size="0", dataset_size="9"), "batch_size"),
        (line_with("epsilon", sampling="uniform"), "sampling must be one of poisson"),
        (line_with("epsilon", steps=None), "epochs"),
        (line_with("epsilon", epochs="1"), "epochs must not be given together with steps"),
        (line_with("epsilon", steps=None, epochs="-1"), "epochs"),
        (line_with("epsilon", steps=None, epochs="nan"), "epochs"),
        (line_with("epsilon", steps=None, epochs="1e400"), "epochs"),
        (line_with("epsilon", steps=None, epochs="1e-999999999"), "epochs"),
        (line_with("epsilon", steps=None, epochs="1e300"), "epochs"),
        (line_with("epsilon", noise_multiplier=None), "noise_multiplier must be given"),
        (line_with("epsilon", delta=None), "delta must be given"),
        (line_with("epsilon") + " --bogus", "--bogus"),
        (line_with("epsilon") + " stray", "stray"),
        (line_with("epsilon") + " --delta", "--delta"),
        ("epsylon", "epsylon"),
        ("--bogus", "--bogus"),
    ],
)
def test_a_wrong_command_line_gets_one_sentence(line, word):
    assert_one_sentence(groupdp(line), word)


def test_a_group_larger_than_the_dataset_is_refused():
    line = line_with("epsilon", **FIXED_BATCH, batch_size="2", dataset_size="4", group_size="5", adjacency="substitute")
    assert_one_sentence(groupdp(line), "group_size")


def test_a_limit_is_one_sentence_too(monkeypatch):
    def too_much(*_, **__):
        raise library.LimitExceeded("the quadrature would need too many nodes.")

    monkeypatch.setattr(guarantees, "epsilon", too_much)
    assert_one_sentence(groupdp(line_with("epsilon")), "too many nodes")


def test_a_bug_keeps_its_traceback(monkeypatch):
    def broken(*_, **__):
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(guarantees, "epsilon", broken)
    with pytest.raises(ZeroDivisionError):
        groupdp(line_with("epsilon"))


def test_ctrl_c_leaves_with_130(monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(guarantees, "epsilon", interrupted)
    outcome = groupdp(line_with("epsilon"))
    assert outcome.status == 130
    assert "Traceback" not in outcome.errors


# ------------------------------------------------------------------------------------- help, version, start-up


@pytest.mark.parametrize("command", ["epsilon", "delta", "curve", "figures", "statement"])
def test_every_command_has_help_with_an_example(command):
    outcome = groupdp(f"{command} --help")
    assert outcome.status == 0
    assert f"groupdp {command}" in outcome.output
    assert "Example" in outcome.output
    assert "--json" in outcome.output


def test_the_examples_of_the_help_work():
    for command in ("epsilon", "delta"):
        help_text = groupdp(f"{command} --help").output
        example = " ".join(help_text.split("Example:")[1].replace("\\", "").split()).removeprefix("groupdp ")
        assert groupdp(f"{example} --json").json


def test_groupdp_alone_says_what_to_type_first(tmp_path, monkeypatch):
    outcome = groupdp("")
    assert (outcome.status, outcome.errors) == (0, "")
    assert max(map(len, outcome.output.splitlines())) <= 80
    monkeypatch.chdir(tmp_path)
    typed = [part.split("   ")[0] for part in outcome.output.replace("\\\n", " ").split("  groupdp ")[1:]]
    first = outcome.output.split("groupdp epsilon ")[1].split("run.toml")[0].replace("\\\n", " ")
    assert groupdp(f"epsilon {first} run.toml").status == 0
    assert len(typed) == 3
    assert groupdp("explain run.toml").status == 0
    assert groupdp("calibrate noise run.toml --epsilon 8").status == 0


def test_version():
    assert groupdp("--version") == (0, f"groupdp {VERSION}\n", "")


def test_the_version_says_where_the_compiled_engine_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """As after an installation without a compiler."""
    monkeypatch.setattr("groupdp.cli.EXTENSION_SUFFIXES", [])
    assert "lattice engine answers" in groupdp("--version").output


def test_shell_completion_is_offered():
    assert "--install-completion" in groupdp("--help").output


def test_the_script_starts_without_what_it_does_not_need():
    """`groupdp epsilon` must not pay for pictures, for statistics or for tables it does not print."""
    program = (
        "import sys, groupdp.cli\n"
        f"sys.argv = ['groupdp', *{(line_with('epsilon') + ' --json').split()!r}]\n"
        "try:\n    groupdp.cli.main()\n"
        "except SystemExit as leaving:\n    assert not leaving.code\n"
        "heavy = {'matplotlib', 'scipy.stats', 'scipy.optimize', 'rich.table'}\n"
        "sys.exit(' '.join(sorted(heavy & set(sys.modules))) or 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["group_size"] == 2


def test_the_installed_script_answers_and_fails_as_promised():
    script = Path(sys.executable).with_name("groupdp")
    environment = {**os.environ, "COLUMNS": "200"}
    good = subprocess.run(
        [script, *line_with("epsilon").split()], capture_output=True, text=True, check=False, env=environment
    )
    assert (good.returncode, good.stderr) == (0, "")
    bad = subprocess.run(
        [script, *line_with("epsilon", delta="nan").split()], capture_output=True, text=True, check=False
    )
    assert (bad.returncode, bad.stdout) == (2, "")
    assert bad.stderr == "delta must be a finite number, got 'nan'.\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
@pytest.mark.parametrize("form", [[], ["--json"]])
def test_a_full_disk_is_one_sentence_and_no_traceback(form):
    command = [Path(sys.executable).with_name("groupdp"), *line_with("epsilon").split(), *form]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == "The answer could not be written to the standard output: No space left on device.\n"
