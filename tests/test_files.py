"""Files that appear whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from groupdp import InvalidArgument
from groupdp._files import NewFiles


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
        pytest.raises(InvalidArgument, match=r"^out must be a file that can be written, got .*\.$"),
        NewFiles() as files,
    ):
        files.temporary(f"{tmp_path}/{place}")
    assert everything_in(tmp_path) == ["file.txt"]


def test_something_that_is_no_file_is_written_directly(tmp_path):
    with NewFiles() as files:
        files.write_text(os.devnull, "x")
    assert Path(os.devnull).is_char_device()
