"""`groupdp calibrate`, `tradeoff`, `people` and `cap`: answers, JSON, files, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

import groupdp as library
from command_line import assert_one_sentence, groupdp
from groupdp.tradeoff import trade_off

RUN = "--sampling-rate 0.01 --steps 2000"
TARGET = "--epsilon 8 --delta 1e-6 --group-size 4"


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (f"noise {RUN} {TARGET}", "noise_multiplier"),
        (f"steps --sampling-rate 0.01 --noise-multiplier 2 {TARGET}", "steps"),
        (f"rate --noise-multiplier 2 --steps 2000 {TARGET}", "sampling_rate"),
        (f"batch --dataset-size 50000 --noise-multiplier 3 --steps 2000 {TARGET}", "batch_size"),
        (f"group {RUN} --noise-multiplier 2 --epsilon 8 --delta 1e-6", "group_size"),
    ],
)
def test_every_calibration_answers_with_both_certificates(command, name):
    answer = groupdp(f"calibrate {command} --json").json
    assert answer[name] > 0
    assert answer["epsilon"]["upper"] <= 8.0 < answer["failing_epsilon"]["lower"]
    assert answer["proved_optimal"] is True
    table = groupdp(f"calibrate {command}").output
    assert "Proved optimal" in table
    assert str(answer[name]) in table


SHUFFLED = (
    "--sampling shuffled --batch-size 500 --dataset-size 50000 --noise-multiplier 4 --epochs 20 --adjacency zero-out "
    "--delta 1e-6"
)


def test_a_calibration_that_is_not_tight_says_so():
    line = f"calibrate noise {SHUFFLED} --epsilon 8 --group-size 2"
    assert groupdp(f"{line} --json").json["tight"] is False
    table = " ".join(groupdp(line).output.split())
    assert "fails by this analysis" in table
    assert "fails, proved" not in table
    assert (
        "Proved optimal for this analysis to a relative 1e-09. Valid, not tight: a better analysis may prove" in table
    )
    tight = "calibrate group --sampling-rate 0.01 --noise-multiplier 4 --steps 2000 --epsilon 8 --delta 1e-6"
    assert groupdp(f"{tight} --json").json["tight"] is True
    assert "not tight" not in groupdp(tight).output


def test_people_of_a_run_that_is_not_tight_are_told(tmp_path: Path):
    counts = tmp_path / "counts.csv"
    counts.write_text("n\n1\n2\n2\n")
    line = f"people {counts} --counts n {SHUFFLED}"
    assert groupdp(f"{line} --json").json["tight"] is False
    assert "Valid, not tight: a better analysis may prove a smaller value" in " ".join(groupdp(line).output.split())
    poisson = f"people {counts} --counts n --sampling-rate 0.01 --noise-multiplier 4 --steps 200 --delta 1e-6"
    assert groupdp(f"{poisson} --json").json["tight"] is True
    assert "not tight" not in groupdp(poisson).output


def test_what_cannot_be_met_is_one_sentence():
    outcome = groupdp(
        "calibrate steps --sampling-rate 1 --noise-multiplier 1 --epsilon 0.1 --delta 1e-6 --group-size 1"
    )
    assert_one_sentence(outcome, "even one step has an epsilon that is at least 4.88655")


def test_trade_off_numbers_and_picture(tmp_path: Path):
    picture = tmp_path / "curve.png"
    answer = groupdp(
        f"tradeoff {RUN} --noise-multiplier 2 --group-size 2 --rates 1e-6,0.1 --plot {picture} --json"
    ).json
    assert picture.read_bytes().startswith(b"\x89PNG")
    function = trade_off(
        library.DPSGD(sampling=library.PoissonSampling(rate=0.01), noise_multiplier=2.0, steps=2000), group_size=2
    )
    for point in answer["points"]:
        again = function.true_positive_rate(point["false_positive_rate"])
        assert point["true_positive_rate"]["upper"] == pytest.approx(again.upper, rel=1e-9)
        assert point["posterior"]["upper"] >= 0.5
    assert 0.0 < answer["advantage"]["upper"] < 1.0


def test_people_from_csv_and_parquet_agree(tmp_path: Path):
    counts = [3, 1, 1, 12]
    csv = tmp_path / "counts.csv"
    csv.write_text("person,n\n" + "".join(f"p{i},{n}\n" for i, n in enumerate(counts)))
    parquet = tmp_path / "counts.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"n": counts, "name": list("abcd")}), parquet)
    bare = tmp_path / "bare.csv"
    bare.write_text("".join(f"{n}\n" for n in counts))
    options = f"{RUN} --noise-multiplier 2 --delta 1e-6 --json"
    answers = [
        groupdp(f"people {csv} --counts n {options}").json,
        groupdp(f"people {parquet} --counts n {options}").json,
        groupdp(f"people {bare} {options} --plot {tmp_path / 'people.svg'}").json,
    ]
    assert answers[0] == answers[1] == answers[2]
    assert answers[0]["people"] == 4
    assert [row["count"] for row in answers[0]["counts"]] == [1, 3, 12]
    assert (tmp_path / "people.svg").exists()
    assert (
        "2 of 4 people have an epsilon of at most 2"
        in groupdp(f"people {bare} {RUN} --noise-multiplier 2 --delta 1e-6").output
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("n\n3\nx\n", "got 'x' in line 3"),
        ("n\n0\n", "at least 1"),
        ("", "empty"),
        ("n\n", "non-empty"),
        ("a,b\n1,2\n", "counts must be a column (say --counts NAME"),
    ],
)
def test_bad_files_are_one_sentence(tmp_path: Path, text, words):
    path = tmp_path / "counts.csv"
    path.write_text(text)
    assert_one_sentence(groupdp(f"people {path} {RUN} --noise-multiplier 2 --delta 1e-6"), words)


def test_a_missing_file_is_one_sentence(tmp_path: Path):
    for name in ("none.csv", "none.parquet"):
        outcome = groupdp(f"people {tmp_path / name} {RUN} --noise-multiplier 2 --delta 1e-6")
        assert_one_sentence(outcome, "counts must be a readable file")
    junk = tmp_path / "junk.parquet"
    junk.write_text("not a table")
    assert_one_sentence(groupdp(f"people {junk} {RUN} --noise-multiplier 2 --delta 1e-6"), "Parquet file")


def test_cap_recommends_and_draws(tmp_path: Path):
    path = tmp_path / "counts.csv"
    path.write_text("n\n" + "\n".join(str(1 + i % 7) for i in range(500)) + "\n")
    command = f"cap {path} --epsilon 8 --delta 1e-6 --batch-size 64 --steps 1000 --minimum-share 0.6"
    answer = groupdp(f"{command} --plot {tmp_path / 'cap.pdf'} --json").json
    best = min((row for row in answer["rows"] if row["allowed"]), key=lambda row: row["noise_per_average"])
    assert answer["recommended"] == best["cap"]
    assert best["epsilon"]["upper"] <= 8.0
    assert (tmp_path / "cap.pdf").read_bytes().startswith(b"%PDF")
    assert any("Sampling people instead" in sentence for sentence in answer["advice"])
    assert_one_sentence(
        groupdp(f"cap {path} --epsilon 8 --delta 1e-6 --batch-size 64"), "steps must be given", "--steps", "--epochs"
    )


def test_cap_without_a_minimum_share_recommends_the_least_noise_that_keeps_most_examples(tmp_path: Path):
    path = tmp_path / "counts.csv"
    path.write_text("n\n" + "\n".join(str(1 + i % 70) for i in range(500)) + "\n")
    command = f"cap {path} --epsilon 8 --delta 1e-6 --batch-size 64 --steps 1000"
    outcome = groupdp(f"{command} --plot {tmp_path / 'cap.svg'} --save {tmp_path / 'new' / 'run.toml'}")
    assert "Recommended: keep up to" in outcome.output
    assert "At least 80 % are kept; --minimum-share sets another share." in outcome.output
    assert (tmp_path / "cap.svg").exists()
    answer = groupdp(f"{command} --json").json
    best = next(row for row in answer["rows"] if row["cap"] == answer["recommended"])
    assert best["share_kept"] >= 0.8
    saved = groupdp(f"epsilon {tmp_path / 'new' / 'run.toml'} --json").json
    assert saved["group_size"] == best["cap"]
    assert saved["epsilon"]["upper"] <= 8.0


def test_people_and_cap_read_rows(tmp_path: Path):
    rows = tmp_path / "rows.csv"
    counts = {"ann": 3, "bob": 1, "cy": 1, "0012": 12}
    rows.write_text("who,x\n" + "".join(f"{who},{i}\n" for who, n in counts.items() for i in range(n)))
    table = tmp_path / "counts.csv"
    table.write_text("who,n\n" + "".join(f"{who},{n}\n" for who, n in counts.items()))
    options = f"{RUN} --noise-multiplier 2 --delta 1e-6 --json"
    answer = groupdp(f"people {rows} --by who {options} --out {tmp_path / 'people.csv'}").json
    assert answer == groupdp(f"people {table} --counts n {options}").json
    lines = (tmp_path / "people.csv").read_text().splitlines()
    assert lines[0] == "who,examples,epsilon_lower,epsilon_upper"
    found = {line.split(",")[0]: line.split(",")[1:] for line in lines[1:]}
    assert {who: int(values[0]) for who, values in found.items()} == counts
    of_twelve = answer["counts"][-1]["epsilon"]
    assert [float(value) for value in found["0012"][1:]] == [of_twelve["lower"], of_twelve["upper"]]
    question = "--epsilon 8 --delta 1e-6 --batch-size 4 --steps 1000 --minimum-share 0.5 --json"
    assert groupdp(f"cap {rows} --by who {question}").json == groupdp(f"cap {table} --counts n {question}").json
    for line, words in (
        (f"people {table} --counts n {options} --out {tmp_path / 'x.csv'}", "out must be given with by"),
        (f"people {table} --counts n --by who {options}", "exclude each other"),
        (f"people {table} {table} --counts n {options}", "one file"),
    ):
        assert_one_sentence(groupdp(line), words)
    again = f"people {rows} --by who {options[:-7]} --out {tmp_path / 'people.csv'}"
    assert_one_sentence(groupdp(again), "out must be a new file", "--force")
    assert "do not publish it" in groupdp(f"{again} --force").output


@pytest.mark.parametrize(
    ("command", "key"),
    [
        (f"noise {RUN} {TARGET}", "noise_multiplier"),
        (f"steps --sampling-rate 0.01 --noise-multiplier 2 {TARGET}", "steps"),
        (f"rate --noise-multiplier 2 --steps 2000 {TARGET}", "sampling_rate"),
        (f"group {RUN} --noise-multiplier 2 --epsilon 8 --delta 1e-6", "group_size"),
    ],
)
def test_what_is_saved_is_what_was_found(tmp_path, command, key):
    saved = tmp_path / "saved.toml"
    answer = json.loads(groupdp(f"calibrate {command} --save {saved} --json").output)
    assert f"{key} = {answer[key]!r}\n" in saved.read_text()
    again = groupdp(f"epsilon {saved} --json").json
    assert again["epsilon"]["upper"] <= 8.0
    assert again["epsilon"]["upper"] == pytest.approx(answer["epsilon"]["upper"], rel=1e-12)


def test_nothing_is_saved_where_no_value_is_found(tmp_path):
    saved = tmp_path / "saved.toml"
    outcome = groupdp(f"calibrate noise {RUN} --epsilon -1 --delta 1e-6 --save {saved}")
    assert_one_sentence(outcome)
    assert not saved.exists()


def test_the_group_that_was_found_is_told_once():
    outcome = groupdp(f"calibrate group {RUN} --noise-multiplier 2 --group-size 1 --epsilon 8 --delta 1e-6")
    assert outcome.status == 2  # it is what is looked for
    told = groupdp(f"calibrate group {RUN} --noise-multiplier 2 --epsilon 8 --delta 1e-6").output
    assert told.count("groups of up to 6") == 2
    assert "groups of up to 1," not in told
