"""Sweeps: every row is what `epsilon` answers, whatever the executor; files are whole or resumable."""

from __future__ import annotations

import csv
import itertools
import json
import shlex
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pyarrow.csv
import pyarrow.parquet
import pytest

import groupdp
from command_line import assert_one_sentence
from command_line import groupdp as command
from groupdp.cli.curves import varied
from groupdp.sweeps import Parts, finished_chunks, grid_of
from refusals import refused

RUN = groupdp.DPSGD(groupdp.PoissonSampling(rate=0.01), noise_multiplier=1.0, steps=2000)
VARY = {"noise_multiplier": [0.8, 2.0, 4.0], "group_size": [0, 1, 9]}


def direct(values: dict, **more) -> groupdp.Bounds:
    run = groupdp.DPSGD(RUN.sampling, noise_multiplier=values.get("noise_multiplier", 1.0), steps=2000)
    size = values.get("group_size", 1)
    return groupdp.epsilon(run, delta=values.get("delta", 1e-6), group_size=size, **more)


def test_every_row_is_the_answer_of_its_own_question():
    rows = groupdp.sweep(RUN, delta=1e-6, vary=VARY)
    assert [tuple(row.values.values()) for row in rows] == [(s, k) for s in (0.8, 2.0, 4.0) for k in (0, 1, 9)]
    for row in rows:
        expected = direct(row.values)
        assert (row.epsilon_lower, row.epsilon_upper, row.tight) == (expected.lower, expected.upper, True)


def test_substitution_and_deltas_vary_too():
    rows = groupdp.sweep(RUN, vary={"delta": [1e-5, 1e-9], "adjacency": ["substitute", "add"]}, group_size=3)
    for row in rows:
        expected = groupdp.epsilon(RUN, delta=row.values["delta"], group_size=3, adjacency=row.values["adjacency"])
        assert (row.epsilon_lower, row.epsilon_upper) == (expected.lower, expected.upper)


def test_few_rounds_are_answered_by_the_engine_that_epsilon_would_ask():
    short = replace(RUN, steps=4)
    for row in groupdp.sweep(short, delta=1e-6, vary={"group_size": [1, 3], "steps": [2, 7]}):
        run = replace(short, steps=row.values["steps"])
        expected = groupdp.epsilon(run, delta=1e-6, group_size=row.values["group_size"])
        assert (row.epsilon_lower, row.epsilon_upper) == (expected.lower, expected.upper)


def test_an_executor_of_processes_answers_the_same():
    with ProcessPoolExecutor(max_workers=1) as pool:
        assert groupdp.sweep(RUN, delta=1e-6, vary=VARY, executor=pool) == groupdp.sweep(RUN, delta=1e-6, vary=VARY)


def test_what_is_refused_says_so_in_its_row():
    run = groupdp.DPSGD(groupdp.FixedBatchSampling(batch_size=5, dataset_size=10), noise_multiplier=2.0, steps=50)
    good, bad = groupdp.sweep(run, delta=1e-6, vary={"group_size": [2, 11]})
    assert good.refused is None
    assert bad.epsilon_upper is None
    assert bad.refused == "group_size must be at most dataset_size=10, got 11."


@pytest.mark.parametrize(
    "vary",
    [{}, None, {"noise": [1]}, {"noise_multiplier": []}, {"noise_multiplier": "1"}, {"noise_multiplier": [-1.0]},
     {"group_size": [1.5]}, {"adjacency": ["sideways"]}, {"delta": [2.0]}, {"sampling": ["poisson"]}],
)  # fmt: skip
def test_bad_grids_are_refused_before_anything_is_computed(vary):
    with pytest.raises(groupdp.InvalidArgument):
        groupdp.sweep(RUN, delta=1e-6, vary=vary)


class Counting(ThreadPoolExecutor):
    """Notes the points that it is asked for."""

    def __init__(self) -> None:
        super().__init__(max_workers=1)
        self.asked: list[tuple] = []

    def submit(self, function, grid, values):
        self.asked += values
        return super().submit(function, grid, values)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_an_interrupted_sweep_goes_on_where_it_stopped(tmp_path, suffix):
    noises = {"noise_multiplier": [1.0 + i / 1000 for i in range(1100)], "group_size": [0]}
    grid = grid_of(RUN, delta=1e-6, group_size=1, adjacency="add-or-remove", vary=noises)
    path = tmp_path / f"grid.{suffix}"
    parts = Parts(str(path), grid)
    assert parts.begin() == set()
    for start, rows in itertools.islice(finished_chunks(grid), 2):
        parts.write(start, rows)
    torn = tmp_path / f"grid.{suffix}.parts" / f".part-0000250.groupdp-{'0' * 12}.{suffix}"
    torn.write_bytes(b"1.0, 2.")  # left by a process that was killed while it wrote
    assert not path.exists()
    again = Parts(str(path), grid)
    done = again.begin()
    assert len(done) == 2
    with Counting() as rest:
        for start, rows in finished_chunks(grid, done=done, executor=rest):
            again.write(start, rows)
    written = {values for start in done for values in grid.values(start, start + grid.chunk)}
    assert written.isdisjoint(rest.asked)
    assert written | set(rest.asked) == set(grid.values())
    assert len(rest.asked) == len(set(rest.asked))
    rows = list(again.rows())
    assert rows == groupdp.sweep(RUN, delta=1e-6, vary=noises)
    again.assemble()
    read = pyarrow.csv.read_csv if suffix == "csv" else pyarrow.parquet.read_table
    assert read(path).column("noise_multiplier").to_pylist() == noises["noise_multiplier"]
    torn.unlink(missing_ok=True)
    other = grid_of(RUN, delta=1e-7, group_size=1, adjacency="add-or-remove", vary=noises)
    assert Parts(str(path), other).begin() == set()


#: The command, which waits to be killed once it has written the first part.
_ONE_PART = """
import time
from groupdp.sweeps import Parts
write = Parts.write

def write_and_wait(self, *part):
    write(self, *part)
    print("written", flush=True)
    time.sleep(3600)

Parts.write = write_and_wait
from groupdp.cli import main
main()
"""


@pytest.mark.filterwarnings("ignore")  # of other packages, at the start and the end of a cluster
def test_dask_workers_finish_a_sweep_that_was_killed(tmp_path):
    """Two workers; the first command is killed, and the second one computes no finished chunk again."""
    distributed = pytest.importorskip("distributed")
    out = tmp_path / "grid.csv"
    arguments = (
        "sweep --sampling-rate 0.01 --noise-multiplier 1 --steps 2000 --delta 1e-6 --group-size 1 "
        f"--vary noise_multiplier=1:3:20 --vary group_size=1:50 -o {shlex.quote(str(out))}"
    )
    folder = Path(f"{out}.parts")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=False, protocol="tcp", dashboard_address=":0", silence_logs=50
    ) as cluster:
        asked = [sys.executable, "-c", _ONE_PART, *shlex.split(arguments), "--scheduler", cluster.scheduler_address]
        with subprocess.Popen(asked, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "written\n"
            process.kill()
        assert not out.exists()
        before = {path: path.stat().st_mtime_ns for path in folder.glob("part-*")}
        assert before
        grid = grid_of(
            RUN,
            delta=1e-6,
            group_size=1,
            adjacency="add-or-remove",
            vary=varied(["noise_multiplier=1:3:20", "group_size=1:50"]),
        )
        parts = Parts(str(out), grid)
        done = parts.begin()
        assert len(done) == len(before)
        submitted = []
        for start, rows in finished_chunks(grid, done=done, scheduler=cluster.scheduler_address):
            submitted.append(start)
            parts.write(start, rows)
    assert set(submitted).isdisjoint(done)
    assert {path: path.stat().st_mtime_ns for path in before} == before
    rows = list(parts.rows())
    assert rows[::97] == groupdp.sweep(RUN, delta=1e-6, vary=dict(grid.vary))[::97]
    parts.assemble()
    assert len(out.read_text().splitlines()) == 1001
    assert list(tmp_path.iterdir()) == [out]


def test_the_command_writes_tables_and_pictures(tmp_path):
    asked = "sweep --sampling-rate 0.01 --noise-multiplier 1 --steps 2000 --delta 1e-6 --group-size 1"
    table, picture, text = (tmp_path / name for name in ("grid.parquet", "grid.png", "grid.csv"))
    both = f"{asked} --vary noise_multiplier=1:4:3 --vary group_size=1:2 -o {table} --plot {picture}"
    done = command(both)
    assert done.status == 0
    assert done.errors == f"wrote {table}\nwrote {picture}\n"
    rows = pyarrow.parquet.read_table(table).to_pylist()
    assert [(row["noise_multiplier"], row["group_size"]) for row in rows] == [
        (s, k) for s in (1.0, 2.5, 4.0) for k in (1, 2)
    ]
    assert picture.stat().st_size > 5000
    assert sorted(path.name for path in tmp_path.iterdir()) == ["grid.parquet", "grid.png"]
    assert_one_sentence(command(both), "out", "--force")
    assert command(f"{asked} --vary steps=1000,2000 -o {text}").status == 0
    with open(text, newline="") as file:
        assert len(list(csv.DictReader(file))) == 2
    answer = json.loads(command(f"{asked} --vary steps=1000,2000 --json").output)
    assert len(answer["rows"]) == 2
    for bad in ("noise_multiplier", "noise_multiplier=1:2:x", "noise_multiplier=", "group_size=5:1"):
        assert_one_sentence(command(f"{asked} --vary {bad}"), "vary must")


def test_points_are_found_by_their_number():
    vary = {"group_size": [1, 2], "noise_multiplier": [1.0, 2.0, 3.0], "delta": [1e-5, 1e-6]}
    grid = grid_of(RUN, delta=None, group_size=1, adjacency="add", vary=vary)
    every = list(itertools.product(*vary.values()))
    assert list(grid.values()) == every
    for first, last in ((0, 5), (7, 9), (11, 40), (12, 20)):
        assert list(grid.values(first, last)) == every[first:last]
    (run,), question = next(grid.questions(grid.values(9)))
    assert (run.noise_multiplier, question) == (2.0, {"delta": 1e-6, "group_size": 2, "adjacency": "add"})


def test_values_that_do_not_go_together_are_refused_one_by_one():
    run = groupdp.DPSGD(
        groupdp.FixedBatchSampling(batch_size=500, dataset_size=50_000), noise_multiplier=2.0, steps=100
    )
    vary = {"batch_size": [100, 500], "dataset_size": [200, 60_000]}
    rows = groupdp.sweep(run, delta=1e-6, vary=vary)
    assert [row.refused for row in rows] == [None, None, "batch_size must be at most dataset_size=200, got 500.", None]
    assert rows[2].epsilon_upper is None
    with refused("batch_size", value=300):
        groupdp.sweep(run, delta=1e-6, vary={"batch_size": [100, 300], "dataset_size": [200, 150]})


def test_rows_that_are_not_tight_say_so(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = "--sampling fixed-batch --batch-size 50 --dataset-size 500 --noise-multiplier 4 --steps 20 --delta 1e-6"
    run_of_one = f"{run} --group-size 1"
    told = command(f"sweep {run_of_one} --vary adjacency=add,substitute").output
    assert "Valid, not tight in 1 of 2 rows" in told
    assert (
        "Valid, not tight: a better"
        in command(f"sweep {run_of_one} --vary noise_multiplier=4 --adjacency zero-out").output
    )
    assert "not tight" not in command(f"sweep {run_of_one} --vary noise_multiplier=4").output
    answer = command(f"sweep {run} --vary group_size=1,2 --json").json
    assert "group_size" not in answer
    assert [row["group_size"] for row in answer["rows"]] == [1, 2]


def test_of_several_bounds_a_sweep_takes_the_smallest():
    """Balls in bins for a group: collisions revealed, hidden, or everything revealed; at sigma = 1 hidden ones win."""
    run = groupdp.DPSGD(groupdp.BallsInBinsSampling(batches=100), noise_multiplier=1.0, steps=100)
    (row,) = groupdp.sweep(run, delta=1e-6, vary={"group_size": [4]})
    expected = groupdp.epsilon(run, delta=1e-6, group_size=4)
    assert (row.epsilon_lower, row.epsilon_upper) == (expected.lower, expected.upper)
    assert row.epsilon_upper < 8.41  # the first bound alone


def test_what_varies_needs_no_value_of_its_own():
    asked = "sweep --sampling-rate 0.01 --steps 100 --delta 1e-6 --group-size 3 --vary noise_multiplier=1,2 --json"
    named = command(asked + " --noise-multiplier 4").json["rows"]
    assert command(asked).json["rows"] == named
    assert len(named) == 2
