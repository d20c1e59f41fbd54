"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from groupdp._files import NewFiles
from refusals import refused


def everything_in(directory: Path) -> list[str]:
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*"))


def test_files_appear_when_all_are_written(tmp_path):
    with NewFiles() as files:
        files.write_text(tmp_path / "new" / "deep" / "one.txt", "1\n")
        assert not (tmp_path / "new" / "deep" / "one.txt").exists()
        files.temporary(tmp_path / "two.png").write_bytes(b"2")
        assert files.temporary(tmp_path / "two.png").suffix == ".png"
    assert (tmp_path / "new" / "deep" / "one.txt").read_text() == "1\n"
    assert (tmp_path / "two.png").read_bytes() == b"2"
    assert everything_in(tmp_path) == ["new", "new/deep", "new/deep/one.txt", "two.png"]


@pytest.mark.parametrize("failure", [ValueError, KeyboardInterrupt, SystemExit])
def test_a_failure_leaves_nothing_behind_and_old_content_alone(tmp_path, failure):
    def interrupted_work():
        with NewFiles() as files:
            files.write_text(tmp_path / "old.txt", "after")
            files.write_text(tmp_path / "new" / "file.txt", "x")
            raise failure

    (tmp_path / "old.txt").write_text("before")
    with pytest.raises(failure):
        interrupted_work()
    assert (tmp_path / "old.txt").read_text() == "before"
    assert everything_in(tmp_path) == ["old.txt"]


def test_a_directory_that_was_there_stays(tmp_path):
    def interrupted_work():
        with NewFiles() as files:
            files.write_text(tmp_path / "there" / "file.txt", "x")
            raise KeyboardInterrupt

    (tmp_path / "there").mkdir()
    with pytest.raises(KeyboardInterrupt):
        interrupted_work()
    assert everything_in(tmp_path) == ["there"]


def test_asked_twice_it_is_the_same_file(tmp_path):
    with NewFiles() as files:
        assert files.temporary(tmp_path / "a.txt") == files.temporary(tmp_path / "a.txt")
        files.write_text(tmp_path / "a.txt", "content")
    assert (tmp_path / "a.txt").read_text() == "content"


def test_others_may_read_what_the_mask_lets_them(tmp_path):
    previous = os.umask(0o022)
    try:
        with NewFiles() as files:
            files.write_text(tmp_path / "a.txt", "x")
    finally:
        os.umask(previous)
    assert (tmp_path / "a.txt").stat().st_mode & 0o777 == 0o644


def test_a_link_keeps_pointing_to_its_target(tmp_path):
    (tmp_path / "target.txt").write_text("old")
    (tmp_path / "link.txt").symlink_to(tmp_path / "target.txt")
    with NewFiles() as files:
        files.write_text(tmp_path / "link.txt", "new")
    assert (tmp_path / "link.txt").is_symlink()
    assert (tmp_path / "target.txt").read_text() == "new"


@pytest.mark.parametrize(
    "place",
    ["", "file.txt/below.txt", "nul\0byte", "x" * 5000],
    ids=["a directory", "below a file", "a NUL byte", "an endless name"],
)
def test_a_place_that_cannot_be_written_is_one_sentence(tmp_path, place):
    (tmp_path / "file.txt").write_text("x")
    with (
        refused("out"),
        NewFiles() as files,
    ):
        files.temporary(f"{tmp_path}/{place}")
    assert everything_in(tmp_path) == ["file.txt"]


def test_something_that_is_no_file_is_written_directly(tmp_path):
    with NewFiles() as files:
        files.write_text(os.devnull, "x")
    assert Path(os.devnull).is_char_device()


LEAVES_FILES = """
import os, sys, tempfile
from pathlib import Path
from groupdp._files import NewFiles
from groupdp.data.duckdb_engine import Engine
with NewFiles() as files, Engine() as engine:
    path = files.temporary(sys.argv[1])
    path.write_text("half")
    (engine.folder / "spilled").write_text("rows")
    print(path, engine.folder, flush=True)
    sys.stdin.read()
"""


def test_what_a_killed_process_leaves_is_removed_by_the_next_and_nothing_of_a_live_one(tmp_path, monkeypatch):
    from groupdp.data.duckdb_engine import Engine

    folder = tmp_path / "temporary files"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr("tempfile.tempdir", None)
    out = tmp_path / "out.csv"
    others = [folder / "groupdp-of-an-older-version", tmp_path / ".out.0123456789ab.csv"]
    others[0].mkdir()
    others[1].touch()
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    processes = [subprocess.Popen([sys.executable, "-c", LEAVES_FILES, str(out)], **pipes) for _ in range(2)]
    try:
        left = []
        for process in processes:
            line = process.stdout.readline()
            file, _, spill = line.strip().partition(f" {folder}")
            left.append((Path(file), Path(f"{folder}{spill}")))
        dead, live = processes
        dead.kill()
        dead.communicate()
        assert all(path.exists() for pair in left for path in pair)  # a kill leaves everything
        with NewFiles() as files, Engine() as engine:
            mine = (files.temporary(out), engine.folder)
            assert not any(path.exists() for path in left[0])
            assert all(path.exists() for path in (*left[1], *mine, *others))
            with NewFiles() as more, Engine() as another:  # of this very process
                assert more.temporary(out) != mine[0]
                assert another.folder != mine[1]
                assert all(path.exists() for path in mine)
            assert (left[1][1] / "spilled").read_text() == "rows"
            mine[0].write_text("whole")
        assert live.communicate("", timeout=600)[0] == ""
        assert live.returncode == 0
    finally:
        for process in processes:
            process.kill()
            with process:
                pass
    assert [path.name for path in folder.iterdir()] == [others[0].name]
