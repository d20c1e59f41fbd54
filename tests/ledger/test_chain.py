"""The file of a ledger: what was written is found again or refused, whoever is killed and however many write."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from groupdp import ledger as chain
from groupdp.errors import InvalidArgument
from groupdp.ledger import append_line, make_file, read_lines

#: Appends numbered lines of its own; the name of each is on stdout once it is written.
WRITER = """
import sys
from groupdp.ledger import append_line
path, writer, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
for number in range(count):
    append_line(path, lambda lines: {"name": f"{writer}-{number}", "padding": "x" * 2000})
    print(f"{writer}-{number}", flush=True)
"""


def start_writer(path: Path, name: str, count: int = 10**9) -> subprocess.Popen[str]:
    arguments = [sys.executable, "-c", WRITER, str(path), name, str(count)]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)


def kill_at_random(path: Path, kills: int, seed: int) -> None:
    """Writers that are killed at random instants: whatever they said was written is there, whole and in order."""
    chance = random.Random(seed)
    said: list[str] = []
    for number in range(kills):
        writer = start_writer(path, str(number))
        assert writer.stdout is not None
        first = writer.stdout.readline().strip()  # it has begun
        time.sleep(chance.uniform(0.0, 0.02))
        writer.send_signal(signal.SIGKILL)
        rest = writer.communicate()[0].split("\n")[:-1]
        said += [first, *rest]
        names = [line["name"] for line in read_lines(path)[1:]]
        # The last one may have been written without having been said.
        assert [name for name in names if name in set(said)] == said
        assert len(names) <= len(said) + number + 1
    append_line(path, lambda lines: {"name": "last"})
    assert read_lines(path)[-1]["name"] == "last"
    assert sorted(os.listdir(path.parent)) == [path.name]  # what the killed had begun is removed


def write_together(path: Path, writers: int, each: int) -> None:
    """All lines of all writers are there, those of each in its order."""
    processes = [start_writer(path, str(number), each) for number in range(writers)]
    for process in processes:
        process.communicate()
        assert process.returncode == 0
    names = [line["name"] for line in read_lines(path)[1:]]
    assert len(names) == writers * each
    for number in range(writers):
        assert [name for name in names if name.startswith(f"{number}-")] == [f"{number}-{i}" for i in range(each)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    folder = tmp_path / "ledger"
    folder.mkdir()
    make_file(folder / "a.jsonl", {"first": True})
    return folder / "a.jsonl"


def test_killed_writers_leave_whole_files(path):
    kill_at_random(path, kills=3, seed=1)


def test_concurrent_writers_lose_nothing(path):
    write_together(path, writers=4, each=5)


def three_lines(path: Path) -> list[str]:
    for number in range(3):
        append_line(path, lambda lines, number=number: {"name": f"é {number}", "value": 0.1 * number})
    return path.read_text(encoding="utf-8").split("\n")


def test_a_file_that_is_cut_anywhere_is_refused(path):
    three_lines(path)
    content = path.read_bytes()
    for length in range(0, len(content), 5):
        path.write_bytes(content[:length])
        with pytest.raises(InvalidArgument):
            read_lines(path)
    path.write_bytes(content)
    assert len(read_lines(path)) == 4


def test_a_byte_that_is_changed_anywhere_is_noticed(path):
    three_lines(path)
    content = path.read_bytes()
    for place in range(0, len(content), 7):
        changed = bytearray(content)
        changed[place] ^= 1
        path.write_bytes(bytes(changed))
        with pytest.raises(InvalidArgument):
            read_lines(path)


@pytest.mark.parametrize(
    ("order", "line"),
    [
        ([0, 2, 3, 4], 2),  # an entry removed
        ([0, 2, 1, 3, 4], 2),  # two exchanged
        ([0, 1, 1, 2, 3, 4], 3),  # one doubled
        ([0, 1, 2, 4], 4),  # the last removed
        ([1, 2, 3, 4], 1),  # the first line removed
    ],
)
def test_removed_and_reordered_lines_are_noticed(path, order, line):
    lines = three_lines(path)
    path.write_text("\n".join([*(lines[i] for i in order), ""]), encoding="utf-8")
    with pytest.raises(InvalidArgument) as error:
        read_lines(path)
    assert error.value.place == f"{path}, line {line}"
    with pytest.raises(InvalidArgument):
        append_line(path, lambda lines: {"name": "later"})


def test_a_line_written_in_another_way_is_refused(path):
    """The digest is of the text: two keys of one name, or spaces, are not what was written."""
    lines = three_lines(path)
    doubled = lines[1].replace('{"name"', '{"value": 9, "name"', 1)
    path.write_text("\n".join([lines[0], doubled, *lines[2:]]), encoding="utf-8")
    with pytest.raises(InvalidArgument):
        read_lines(path)


def test_a_file_that_exists_is_not_made_anew(path):
    before = path.read_bytes()
    with pytest.raises(InvalidArgument) as error:
        make_file(path, {"first": False})
    assert (error.value.argument, path.read_bytes()) == ("ledger", before)
    assert os.listdir(path.parent) == [path.name]


def test_what_cannot_be_added_leaves_the_file_as_it_was(path):
    before = path.read_bytes()

    def fails(lines):
        raise InvalidArgument("run", 1, "be another one")

    with pytest.raises(InvalidArgument):
        append_line(path, fails)
    with pytest.raises(ValueError, match="JSON"):
        append_line(path, lambda lines: {"value": float("inf")})
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]


def test_without_locks_nothing_is_written(path, monkeypatch):
    monkeypatch.setattr(chain, "fcntl", None)
    with pytest.raises(InvalidArgument) as error:
        append_line(path, lambda lines: {})
    assert error.value.argument == "ledger"
    assert len(read_lines(path)) == 1


def test_a_link_and_the_mode_of_a_file_are_kept(path):
    os.chmod(path, 0o640)
    link = path.with_name("link.jsonl")
    link.symlink_to(path.name)
    append_line(link, lambda lines: {"name": "by the link"})
    assert link.is_symlink()
    assert json.loads(path.read_text().split("\n")[1])["name"] == "by the link"
    assert path.stat().st_mode & 0o777 == 0o640
