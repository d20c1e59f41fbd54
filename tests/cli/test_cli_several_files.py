"""Several run files in one question, each with its group size; phases with a group size of their own."""

from __future__ import annotations

import pytest

import groupdp
from command_line import assert_one_sentence
from command_line import groupdp as run_cli
from groupdp.mechanisms.wrappers import OfGroup
from groupdp.run_file import parse_run_file
from groupdp.run_file.run import run_file_text

TRAINING = groupdp.DPSGD(groupdp.PoissonSampling(rate=0.01), noise_multiplier=1.0, steps=300)
HISTOGRAM = groupdp.GaussianRelease(10.0)
TEXTS = {
    "a.toml": """
delta = 1e-6
[[phase]]
sampling_rate = 0.01
noise_multiplier = 1.0
steps = 300
""",
    "b.toml": """
delta = 1e-6
group_size = 3
[[phase]]
mechanism = "gaussian"
noise_multiplier = 10.0
""",
    "c.toml": """
delta = 1e-5
group_size = 3
adjacency = "substitute"
[[phase]]
mechanism = "laplace"
noise_multiplier = 10.0
""",
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    for name, text in TEXTS.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def upper(line: str) -> float:
    return run_cli(f"epsilon {line} --json").json["epsilon"]["upper"]


@pytest.mark.parametrize(
    ("line", "sizes"),
    [("a.toml:4 b.toml", (4, 3)), ("a.toml:4 b.toml:1", (4, 1)), ("a.toml b.toml --group-size 2", (2, 3))],
)
def test_every_file_has_its_group_size(folder, line, sizes):
    pairs = list(zip((TRAINING, HISTOGRAM), sizes, strict=True))
    assert upper(line) == groupdp.epsilon(pairs, delta=1e-6).upper


def test_one_file_with_a_group_size_is_that_option(folder):
    assert upper("a.toml:5") == upper("a.toml --group-size 5")


@pytest.mark.parametrize(
    "line",
    ["a.toml b.toml", "b.toml c.toml", "a.toml:3 b.toml --group-size 2", "a.toml:99999999999999 b.toml", "no.toml:3"],
)
def test_files_that_do_not_go_together_are_refused_in_a_sentence(folder, line):
    assert_one_sentence(run_cli(f"epsilon {line}"))


@pytest.mark.parametrize("command", ["curve --group-sizes 1,2", "calibrate steps --epsilon 3"])
def test_commands_without_an_answer_for_groups_of_their_own_say_so(folder, command):
    """A curve varies one group size; of several phases the one to change has to be named."""
    assert_one_sentence(run_cli(f"{command} a.toml:4 b.toml"))


def test_a_statement_says_how_many_examples_each_release_has(folder):
    done = run_cli("statement a.toml:4 b.toml")
    assert done.status == 0, done.errors
    assert "a person has at most 4 examples" in done.output
    assert "a person has at most 3 examples" in done.output


def test_a_phase_with_a_group_size_is_a_pair_and_is_written_back():
    file = parse_run_file(
        TEXTS["a.toml"] + "group_size = 4\n[[phase]]\nmechanism = 'gaussian'\nnoise_multiplier = 10\n"
    )
    assert file.phases == (OfGroup.of(TRAINING, 4), HISTOGRAM)
    assert parse_run_file(run_file_text(file)) == file
    for adjacency in ("add-or-remove", "substitute", "zero-out"):
        asked = {"delta": 1e-6, "group_size": 2, "adjacency": adjacency}
        assert groupdp.epsilon(file.phases, **asked) == groupdp.epsilon([(TRAINING, 4), HISTOGRAM], **asked)


@pytest.mark.parametrize("keywords", [{"group_size": 2, "adjacency": "add-and-remove"}, {"removed": 2, "added": 1}])
def test_a_group_of_its_own_is_not_split(keywords):
    with pytest.raises(groupdp.InvalidArgument) as error:
        groupdp.epsilon([OfGroup.of(TRAINING, 4), HISTOGRAM], delta=1e-6, **keywords)
    assert error.value.argument == "adjacency"
