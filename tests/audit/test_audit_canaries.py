"""Scores from other people's loops: CSV files, the command line, and the picture."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import numpy as np
import pytest

from command_line import groupdp
from groupdp.audit import Scores, attack_scores, audit_scores, audit_worst_case, read_scores, worst_case
from groupdp.drawing import save_figure
from groupdp.figures import claimed_tradeoff, draw_audit
from groupdp.mechanisms.dpsgd import DPSGD
from groupdp.samplings import PoissonSampling
from refusals import refused

RUN = DPSGD(sampling=PoissonSampling(rate=0.2), noise_multiplier=4.0, steps=20)
RUN_OPTIONS = ["--sampling-rate", "0.2", "--noise-multiplier", "4", "--steps", "20"]


def invoke(*arguments: str) -> tuple[int, str, str]:
    outcome = groupdp(f"audit {shlex.join(arguments)}")
    return outcome.status, outcome.output, outcome.errors


def write_csv(path: Path, scores: Scores, *, shorter: int = 0) -> Path:
    without = [repr(score) for score in scores.without_group.tolist()]
    without[len(without) - shorter :] = [""] * shorter
    rows = zip(scores.with_group.tolist(), without, strict=True)
    lines = ["run,with_group,without_group", *(f"{i},{one!r},{other}" for i, (one, other) in enumerate(rows))]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module")
def canaries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A loop's final iterates, as a canary's owner would score them: no likelihood ratio, just how far it went."""

    def final_distance(iterates: np.ndarray, instance: object) -> np.ndarray:
        return iterates[-1, :, 0]

    scores = attack_scores(worst_case(RUN, group_size=4), trials=8000, seed=4, attack=final_distance)
    return write_csv(tmp_path_factory.mktemp("scores") / "canaries.csv", scores, shorter=100)


def test_a_file_gives_back_its_columns(canaries: Path) -> None:
    scores = read_scores(canaries)
    assert (len(scores.with_group), len(scores.without_group)) == (8000, 7900)
    swapped = read_scores(canaries, with_column="without_group", without_column="with_group")
    assert np.array_equal(scores.with_group, swapped.without_group)


def test_a_canary_catches_a_wrong_group_size_and_not_a_right_one(canaries: Path) -> None:
    scores = read_scores(canaries)
    wrong = audit_scores(scores, RUN, delta=1e-3, group_size=1)
    right = audit_scores(scores, RUN, delta=1e-3, group_size=4)
    assert wrong.verdict.contradicted
    assert not right.verdict.contradicted
    assert wrong.epsilon_lower == right.epsilon_lower
    assert wrong.epsilon_lower.value > wrong.claimed_epsilon.upper
    assert right.more_runs_for_gap is not None
    assert right.more_runs_for_gap > 0


def test_the_command_line_audits_a_file_and_its_status_is_the_verdict(canaries: Path) -> None:
    picture = canaries.parent / "canaries.svg"
    options = ["scores", str(canaries), *RUN_OPTIONS, "--group-size", "1", "--delta", "1e-3"]
    status, text, _ = invoke(*options, "--plot", str(picture))
    assert status == 1
    assert picture.read_text().startswith("<?xml")
    assert "CONTRADICTED" in text
    status, text, _ = invoke("scores", str(canaries), *RUN_OPTIONS, "--group-size", "4", "--delta", "1e-3", "--json")
    assert status == 0
    answer = json.loads(text)
    expected = audit_scores(read_scores(canaries), RUN, delta=1e-3, group_size=4)
    assert answer["contradicted"] is False
    assert answer["epsilon_lower"]["value"] == expected.epsilon_lower.value
    assert answer["claimed_epsilon"]["upper"] == expected.claimed_epsilon.upper
    assert answer["more_runs_for_gap"] == expected.more_runs_for_gap


def test_the_command_line_simulates_the_worst_case(tmp_path: Path) -> None:
    picture = tmp_path / "audit.svg"
    options = ["worst-case", *RUN_OPTIONS, "--group-size", "4", "--trials", "5000", "--seed", "3", "--delta", "1e-2"]
    status, text, _ = invoke(*options, "--importance-samples", "2000", "--plot", str(picture))
    assert status == 0
    for phrase in ("agree with the claimed curve", "not contradicted", "a check of the numerics, not an audit"):
        assert phrase in text
    assert picture.read_text().startswith("<?xml")
    status, text, _ = invoke(*options, "--json", "--claimed-group-size", "1")
    assert status == 1
    answer = json.loads(text)
    assert answer["contradicted"] is True
    assert answer["consistent"] is False
    assert {one["direction"] for one in answer["measured"]} == {"add", "remove"}
    again = json.loads(invoke(*options, "--json", "--claimed-group-size", "1")[1])
    assert again == answer


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--trials", "1"], "trials must be an integer of at least 2"),
        (["--trials", "many"], "trials must be an integer"),
        (["--delta", "0"], "delta must be in (0, 1), got"),
        (["--confidence", "1"], "confidence must be in [0.5, 1), got 1.0"),
        (["--group-size", "0"], "group_size must be an integer of at least 1"),
        (["--plot", "audit.doc"], "plot must end in .png, .pdf, .svg"),
        (["--plot", f"{__file__}/audit.svg"], "plot must be a file that can be written"),
        (["--seed", "-1"], "seed must be an integer of at least 0"),
        (["--gap", "0"], "gap must be in (0, 100]"),
    ],
)
def test_bad_options_get_one_sentence_and_status_2(arguments: list[str], sentence: str) -> None:
    status, text, errors = invoke("worst-case", *RUN_OPTIONS, "--group-size", "2", "--trials", "10", *arguments)
    assert status == 2
    assert text == ""
    assert sentence in errors
    assert errors.count("\n") == 1


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("a,b\n1,2\n", "scores must have one column named 'with_group'"),
        ("with_group,without_group\n1,x\n", "without_group must hold numbers, got 'x' on line 2"),
        ("with_group,without_group\n1,nan\n", "without_group must hold numbers, got 'nan' on line 2"),
        ("with_group,without_group\n", "with_group must be a non-empty sequence of scores"),
        ("", "scores must have one column named"),
        ("with_group,without_group\n1,2\n", "with_group must hold at least 2 scores"),
    ],
)
def test_bad_files_get_one_sentence(tmp_path: Path, content: str, sentence: str) -> None:
    path = tmp_path / "scores.csv"
    path.write_text(content)
    status, _, errors = invoke("scores", str(path), *RUN_OPTIONS, "--group-size", "2")
    assert status == 2
    assert sentence in errors


def test_files_that_are_not_there_or_not_text_get_one_sentence(tmp_path: Path) -> None:
    with refused("scores"):
        read_scores(tmp_path / "missing.csv")
    binary = tmp_path / "binary.csv"
    binary.write_bytes(b"with_group,without_group\n\xff\xfe,1\n")
    with refused("scores"):
        read_scores(binary)
    with refused("with_column and without_column"):
        read_scores(binary, with_column="a", without_column="a")


def test_spreadsheets_with_a_byte_order_mark_and_infinite_scores_are_read(tmp_path: Path) -> None:
    path = tmp_path / "scores.csv"
    path.write_bytes(b"\xef\xbb\xbfwith_group, without_group\r\ninf,-1\r\n2,-inf\r\n")
    scores = read_scores(path)
    assert scores.with_group.tolist() == [np.inf, 2.0]
    assert scores.without_group.tolist() == [-1.0, -np.inf]


def test_the_certified_floor_is_below_the_attack_and_above_zero() -> None:
    audit = audit_worst_case(RUN, group_size=4, trials=2000, delta=1e-2, seed=1)
    alphas = np.linspace(0.0, 1.0, 11)
    for direction in ("add", "remove"):
        floor = claimed_tradeoff(audit.claim, direction, alphas)
        assert np.all(np.diff(floor) <= 1e-12)
        assert np.all(floor <= 1.0 - alphas + 1e-12)
        assert floor[0] > 0.99
        assert floor[-1] == 0.0
    # The two directions describe the same tests, read from the other side.
    remove = claimed_tradeoff(audit.claim, "remove", alphas)
    back = claimed_tradeoff(audit.claim, "add", remove)
    assert np.all(back <= alphas + 1e-9)


def test_pictures_are_reproducible_and_need_no_display(tmp_path: Path) -> None:
    audit = audit_worst_case(RUN, group_size=2, trials=500, delta=1e-2, seed=1)
    for name in ("audit.svg", "again.svg", "audit.png"):
        save_figure(draw_audit(audit), tmp_path / name)
        assert (tmp_path / name).stat().st_size > 5000
    assert (tmp_path / "audit.svg").read_bytes() == (tmp_path / "again.svg").read_bytes()
