"""A command that fails or is stopped leaves neither temporary files nor half an output."""

from __future__ import annotations

import itertools
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from groupdp import _files
from groupdp.data import duckdb_engine

SCRIPT = (sys.executable, "-c", "from groupdp.cli import main; main()")


def test_a_full_disk_leaves_nothing(tmp_path: Path):
    """Files may not grow beyond 200 kB in the process: the rows do not fit."""
    rows = {"user_id": [i % 20_000 for i in range(100_000)], "k": [i * 2**40 % 999_999_937 for i in range(100_000)]}
    pyarrow.parquet.write_table(pyarrow.table(rows), tmp_path / "rows.parquet")
    limit = 200_000

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

    line = [
        "bound",
        f"{tmp_path}/rows.parquet",
        *["--by", "user_id", "--key", "k", "--at-most", "8", "-o"],
        f"{tmp_path}/out.parquet",
    ]
    done = subprocess.run(
        [*SCRIPT, *line],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=limited,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    assert done.returncode == 2, done
    assert done.stderr.count("\n") == 1
    assert "Traceback" not in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["rows.parquet"]


#: `bound`, whose first statement of any length never ends; it says when DuckDB is at it.
ENDLESS = """
from groupdp.data import duckdb_engine
rows, said = duckdb_engine.Engine.rows, []

def endless(self, sql, progress=None):
    if "rows.csv" not in sql:
        return rows(self, sql, progress)
    return rows(self, "SELECT count(*) FROM range(1000000000) a, range(1000000000) b WHERE a.range % 7 = 1", say)

def say(_):
    if not said:
        print("begun", flush=True)
    said.append(True)

duckdb_engine.Engine.rows = endless
from groupdp.cli import main
main()
"""


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_a_kill_leaves_no_output(tmp_path: Path, sent: signal.Signals):
    (tmp_path / "rows.csv").write_text("user_id,k\na,1\n")
    (tmp_path / "out.parquet").write_text("before")
    line = ["bound", str(tmp_path / "rows.csv"), "--by", "user_id", "--key", "k", "--at-most", "8", "--force", "-o"]
    with subprocess.Popen(
        [sys.executable, "-c", ENDLESS, *line, str(tmp_path / "out.parquet")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    ) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "begun\n"
        assert any(path.name.startswith("groupdp-") for path in tmp_path.iterdir())
        running.send_signal(sent)
        _, errors = running.communicate()
    assert running.returncode == (-sent if sent == signal.SIGKILL else 130)
    assert "Traceback" not in errors
    assert (tmp_path / "out.parquet").read_text() == "before"
    if sent != signal.SIGKILL:  # whose victim cannot tidy up: what it leaves is hidden, and is not the output
        assert sorted(path.name for path in tmp_path.iterdir()) == ["out.parquet", "rows.csv"]


class Exits:
    """Stands for the module `atexit`."""

    def __init__(self) -> None:
        self.register: Any = (kept := []).append
        self.unregister: Any = lambda function: function in kept and kept.remove(function)
        self.kept: list[Any] = kept


def test_ctrl_c_at_any_line_leaves_no_folder_when_the_process_ends(tmp_path: Path, monkeypatch):
    """The folder was made before anything was responsible for it, and closing could be interrupted before it went."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    traced = {duckdb_engine.__file__, _files.__file__}

    def is_interrupted_at(number: int) -> bool:
        events = itertools.count(1)

        def trace(frame: Any, *_: Any) -> Any:
            if frame.f_code.co_filename not in traced:
                return None
            if next(events) == number:
                raise KeyboardInterrupt
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            with duckdb_engine.Engine(threads=1) as engine:
                assert engine.folder.is_dir()
        except KeyboardInterrupt:
            return True
        finally:
            sys.settrace(before)
        return False

    for number in itertools.count(1):
        monkeypatch.setattr(duckdb_engine, "atexit", exits := Exits())
        if not is_interrupted_at(number):
            break
        for function in list(exits.kept):
            function()
        assert list(tmp_path.iterdir()) == []
    assert number > 60
    assert not exits.kept
