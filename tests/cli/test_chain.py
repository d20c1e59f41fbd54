"""From a table to a statement: each command takes what the one before found, and no number is typed twice."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from command_line import groupdp
from groupdp.data.manifest import read_manifest
from groupdp.errors import InvalidArgument
from groupdp.printing import counted
from paths import ROOT

ROWS = shlex.quote(str(ROOT / "examples" / "rows.csv"))


@pytest.fixture(scope="module")
def bounded(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    done = groupdp(
        f"bound {ROWS} --by user_id --key example_id --at-most 6 --seed 2026 --out {folder}/bounded.parquet --json"
    )
    assert done.status == 0, done.errors
    return folder / "bounded.parquet", json.loads(done.output)


def test_bound_leaves_a_manifest_that_says_what_it_did(bounded):
    table, report = bounded
    found = read_manifest(table)
    assert (found.cap, found.seed, found.rows, found.people) == (6, "2026", report["kept"], report["people"])
    assert (found.digest, found.largest, found.owners) == (report["digest"], report["largest_kept"], None)
    assert found.share_kept == report["kept"] / report["rows"]
    assert found.checked
    assert found.largest_delta == 1e-3


def test_a_manifest_alone_serves_and_is_said_not_to_have_been_compared(bounded, tmp_path):
    table, _ = bounded
    alone = tmp_path / "bounded.parquet.manifest.json"
    alone.write_bytes((table.parent / alone.name).read_bytes())
    assert not read_manifest(alone).checked
    told = groupdp(
        f"epsilon --data {alone} --sampling poisson --batch-size 50 --epochs 1 --noise-multiplier 2 --delta 1e-3"
    )
    assert "its digest was not checked" in " ".join(told.output.split())


def test_group_and_dataset_size_come_from_the_data_and_sizes_are_saved_as_given(bounded, tmp_path):
    table, _ = bounded
    save = tmp_path / "runs" / "run.toml"  # a folder that is not there yet
    found = groupdp(
        f"calibrate noise --data {table} --sampling poisson --batch-size 50 --epochs 5 --epsilon 8 --delta 1e-3 "
        f"--save {save}"
    )
    assert found.status == 0, found.errors
    assert "batches of 50 on average, from 486 examples" in found.output
    file = tomllib.loads(save.read_text())
    assert file["group_size"] == 6
    assert file["phase"][0] == {**file["phase"][0], "batch_size": 50, "dataset_size": 486, "epochs": 5}
    plain = groupdp("calibrate noise --sampling-rate 50/486 --epochs 5 --epsilon 8 --delta 1e-3 --group-size 6 --json")
    assert json.loads(plain.output)["run"]["noise_multiplier"] == file["phase"][0]["noise_multiplier"]
    again = json.loads(groupdp(f"epsilon {save} --json").output)
    assert again["epsilon"]["upper"] <= 8.0
    larger = groupdp(f"epsilon {save} --batch-size 100").output  # five epochs of larger batches are fewer steps
    assert "batches of 100 on average, from 486 examples" in larger
    assert "25 steps (5 epochs)" in larger


def test_a_table_that_is_not_the_one_described_is_refused(bounded, tmp_path):
    table, _ = bounded
    other = tmp_path / "bounded.parquet"
    other.write_bytes(table.read_bytes() + b" ")
    (tmp_path / "bounded.parquet.manifest.json").write_bytes(
        (table.parent / "bounded.parquet.manifest.json").read_bytes()
    )
    run = tmp_path / "run.toml"
    run.write_text(
        'data = "bounded.parquet"\ndelta = 1e-3\n[[phase]]\nsampling = "poisson"\nbatch_size = 50\n'
        "noise_multiplier = 2\nsteps = 10\n"
    )
    refused = groupdp(f"epsilon {run}")
    assert refused.status == 2
    assert "run.toml, line 1: data must be the table that" in refused.errors
    assert groupdp(f"people {other} --run {run}").status == 2


@pytest.mark.parametrize(
    "content", ["", "{}", "[1]", '{"groupdp_manifest": 1}', '{"groupdp_manifest": 1, "rows": -1}', "[" * 5000, "\xff"]
)
def test_what_is_no_manifest_is_refused(content, tmp_path):
    place = tmp_path / "x.csv.manifest.json"
    place.write_text(content, encoding="latin-1")
    with pytest.raises(InvalidArgument) as refused:
        read_manifest(tmp_path / "x.csv")
    assert refused.value.argument == "data"


def test_another_dataset_size_than_the_data_have_is_refused(bounded):
    table, _ = bounded
    rest = "--noise-multiplier 2 --steps 10 --delta 1e-3"
    refused = groupdp(f"epsilon --data {table} --sampling poisson --batch-size 50 --dataset-size 500 {rest}")
    assert refused.status == 2
    assert "dataset_size must be 486, the rows of bounded.parquet, got 500" in refused.errors
    # Of two neighbours the smaller counts: a person's examples are away, and a pass is one over all rows.
    fixed = json.loads(
        groupdp(
            f"epsilon --data {table} --sampling fixed-batch --batch-size 48 --epochs 1 --noise-multiplier 2 "
            "--delta 1e-3 --json"
        ).output
    )
    assert (fixed["run"]["dataset_size"], fixed["run"]["steps"]) == (480, 11)
    assert (
        groupdp(f"epsilon --data {table} --sampling fixed-batch --batch-size 50 --dataset-size 486 {rest}").status == 2
    )
    shuffled = json.loads(groupdp(f"epsilon --data {table} --sampling shuffled --batch-size 50 {rest} --json").output)
    assert (shuffled["run"]["dataset_size"], shuffled["adjacency"]) == (486, "zero-out")


@pytest.mark.parametrize("group", ["--group-size 5", "--removed 5", "--removed 1 --added 5"])
def test_a_group_below_the_largest_person_is_refused_or_said_not_to_be_everybody(group, bounded, tmp_path):
    table, _ = bounded
    run = f"--data {table} --sampling poisson --batch-size 50 --epochs 1 --noise-multiplier 2 --delta 1e-3"
    key = group.split()[-2].removeprefix("--").replace("-", "_")
    wanted = "be at least 6: somebody has that many examples in bounded.parquet"
    for command in (f"certify {run} {group} -o {tmp_path}/claim.json", f"statement {run} {group}"):
        refused = groupdp(command)
        assert (refused.status, f"{key} must {wanted}, got 5" in " ".join(refused.errors.split())) == (2, True)
    assert not (tmp_path / "claim.json").exists()
    told = groupdp(f"epsilon {run} {group}")
    assert (told.status, f"{key} is 5, and must {wanted}" in " ".join(told.output.split())) == (0, True)
    assert "does not cover everybody" not in " ".join(groupdp(f"epsilon {run} --group-size 6").output.split())
    calibrated = groupdp(f"calibrate noise {run.replace('--noise-multiplier 2', '')} {group} --epsilon 8")
    assert "this does not cover everybody" in " ".join(calibrated.output.split())


def test_files_that_are_combined_keep_what_their_data_say(bounded):
    table, _ = bounded
    run = table.parent / "run.toml"
    run.write_text(
        f'data = "{table.name}"\ndelta = 1e-3\n[[phase]]\nsampling = "poisson"\nbatch_size = 50\n'
        "noise_multiplier = 2\nsteps = 10\n"
    )
    for command in ("certify", "statement"):
        refused = groupdp(f"{command} {run}:6 {run}:1 --delta 1e-3")
        assert (refused.status, "group_size must be at least 6: somebody" in refused.errors) == (2, True)
    book = table.parent / "book.jsonl"
    assert groupdp(f"ledger new --ledger {book} --covers users --delta 1e-3").status == 0
    refused = groupdp(f"ledger add {run} --ledger {book} --group-size 1")
    assert (refused.status, "group_size must be at least 6: somebody" in refused.errors) == (2, True)
    assert groupdp(f"ledger add {run} --ledger {book}").status == 0


def test_a_missing_delta_is_suggested_by_the_rule_for_the_number_of_people(bounded):
    table, _ = bounded
    refused = groupdp(f"epsilon --data {table} --sampling poisson --batch-size 50 --steps 10 --noise-multiplier 2")
    assert "delta must be given, like --delta 0.001: a tenth of one over the 100 people" in refused.errors


def test_shuffling_without_an_adjacency_takes_the_one_it_has_and_says_so(tmp_path):
    run = tmp_path / "run.toml"
    sizes = "--batch-size 600 --dataset-size 60000 --epochs 2 --noise-multiplier 4 --delta 1e-6 --group-size 4"
    assert groupdp(f"epsilon --sampling poisson {sizes} --save {run}").status == 0
    for line in (f"epsilon {run} --sampling shuffled", f"epsilon --sampling shuffled {sizes}"):
        told = groupdp(line)
        assert told.status == 0, told.errors
        assert "no adjacency was given; zero-out is used" in " ".join(told.output.split())
    stated = groupdp(f"epsilon {run} --sampling shuffled --adjacency add-or-remove")
    assert stated.status == 2


def commands_of(page: str, marker: str) -> list[str]:
    """The command lines of the transcripts after a heading of a page."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8").partition(marker)[2].replace("\\\n", " ")
    return [line.removeprefix("$ groupdp ") for line in text.splitlines() if line.startswith("$ groupdp ")]


def test_the_whole_story_has_at_most_eight_commands_and_no_number_twice(tmp_path, monkeypatch):
    """The commands of the tutorial, on a larger table; tests/docs executes them as they stand."""
    story = commands_of("tutorial.md", "## Part two")
    assert len(story) <= 8
    numbers = [word for line in story for word in line.split() if re.fullmatch(r"[0-9.]+(e-?[0-9]+)?", word)]
    assert len(numbers) == len(set(numbers)) > 5
    random = np.random.default_rng(5)
    rows = 20_000
    pyarrow.parquet.write_table(
        pyarrow.table(
            {"user_id": np.minimum(random.pareto(1.2, rows) * 300, 3_000).astype(np.int64), "example_id": range(rows)}
        ),
        tmp_path / "rows.parquet",
    )
    monkeypatch.chdir(tmp_path)
    for typed in story:
        line = typed.replace("examples/rows.csv", "rows.parquet").replace("bounded.csv", "bounded.parquet")
        done = groupdp(line.replace("--batch-size 50", "--batch-size 500"))
        assert done.status == 0, (line, done.errors)
    text = (tmp_path / "statement.md").read_text()
    manifest = read_manifest(tmp_path / "bounded.parquet")
    for known in (
        f"the seed '{manifest.seed}'",
        manifest.digest,
        manifest.sha256,
        f"{counted(manifest.rows)} examples of",
    ):
        assert known in text
    assert "Verified independently" in text


def test_a_missing_column_of_people_lists_the_columns(tmp_path):
    for line in (f"count {ROWS}", f"bound {ROWS} --at-most 3 --out {tmp_path}/x.csv"):
        refused = groupdp(line)
        assert refused.status == 2
        assert "by must be given" in refused.errors
        assert "'user_id', 'example_id', 'label'" in refused.errors


def test_a_column_without_one_text_is_refused_with_what_to_do(tmp_path):
    table = pyarrow.table({"who": [1, 1, 2], "number": [7, 8, 9], "score": [0.5, 1.5, 2.5]})
    pyarrow.parquet.write_table(table, tmp_path / "rows.parquet")
    line = f"bound {tmp_path}/rows.parquet --by who --at-most 1 --out {tmp_path}/x.csv"
    refused = groupdp(line)
    assert refused.status == 2
    assert "name columns such as 'number', that tell a person's examples apart: --key" in refused.errors
    assert groupdp(f"{line} --key number").status == 0


def test_people_begin_with_quantiles_and_read_what_count_wrote(tmp_path):
    counted = groupdp(f"count {ROWS} --by user_id --out {tmp_path}/counts.csv")
    assert counted.status == 0, counted.errors
    run = "--sampling-rate 0.01 --noise-multiplier 2 --steps 200 --delta 1e-6"
    told = groupdp(f"people {tmp_path}/counts.csv {run}")
    assert told.status == 0, told.errors
    assert told.output.index("50 % of the people") < told.output.index("have an epsilon of at most 1.")
    assert told.output.index("have an epsilon of at most 8.") < told.output.index("By number of examples")
    assert len(told.output.splitlines()) < 40
    rows = groupdp(f"people {ROWS} --by user_id {run} --json").json
    assert groupdp(f"people {tmp_path}/counts.csv {run} --json").json == rows


@pytest.mark.parametrize(("typed", "offered"), [("groupdp st", ["statement"]), ("groupdp epsilon --sav", ["--save"])])
def test_completion_lists_commands_and_options_not_the_first_screen(typed, offered):
    asked = {"_GROUPDP_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": str(typed.count(" "))}
    done = subprocess.run(
        [Path(sys.executable).with_name("groupdp")],
        env={**os.environ, **asked},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() == offered
