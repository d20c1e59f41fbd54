"""Tables as people have them: understood, or refused by line; output whole or not at all."""

from __future__ import annotations

import csv
import gzip
import json
import subprocess
import sys
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from command_line import assert_one_sentence, groupdp
from groupdp.data import bound, count
from groupdp.data.relations import read_header
from groupdp.errors import GroupDPError
from refusals import refused

SCRIPT = (sys.executable, "-c", "from groupdp.cli import main; main()")


def counted(path: Path) -> dict[str, int]:
    found = count(path, by="user_id", table=True)
    return dict(zip(*(column.to_pylist() for column in found.table.columns), strict=True))


@pytest.mark.parametrize(
    ("content", "people"),
    [
        (b"\xef\xbb\xbfuser_id,x\na,1\nb,2\na,3\n", {"a": 2, "b": 1}),
        (b"user_id;x\r\na;1,5\r\na;2\r\n", {"a": 2}),
        (b"x\tuser_id\n1\t7\n2\t007\n", {"7": 1, "007": 1}),
        (b' user_id , x\n"a, b",1\n', {"a, b": 1}),
        (b"user_id\n7\n7\n8\n", {"7": 2, "8": 1}),
        (b'user_id,x\na,"two\nlines"\nb,2\n', {"a": 1, "b": 1}),
        (b"user_id,x\na,\nb,2", {"a": 1, "b": 1}),
    ],
)
def test_files_that_are_understood(tmp_path: Path, content: bytes, people: dict[str, int]):
    path = tmp_path / "rows.csv"
    path.write_bytes(content)
    assert counted(path) == people


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"user_id,x\na,1\nb,1,234\n", ["line 3", "Found: 3"]),
        (b"user_id,x\na,1\nb\n", ["line 3", "Found: 1"]),
        (b'user_id,x\n"a,1\nb,2\n', ["line 2", "quote"]),
        (b"user_id,x\na,1\n,2\n", ["'user_id' must not be missing, got 1 row"]),
        (b"user_id,x\n\xe9,1\n", ["line 2", "unicode"]),
        (b"user_id,user_id\na,b\n", ["different names"]),
        (b"user_id,x\n", ["at least one row"]),
        (b"", ["at least one row, got the empty"]),
        (b"\n\n", ["column names"]),
        (b"a,1\nb,2\n", ["column must be one of 'a', '1', got 'user_id'"]),
    ],
)
def test_files_that_are_refused(tmp_path: Path, content: bytes, words: list[str]):
    (tmp_path / "rows.csv").write_bytes(content)
    assert_one_sentence(groupdp(f"count {tmp_path / 'rows.csv'} --by user_id"), *words)


def test_paths_that_are_refused(tmp_path: Path):
    (tmp_path / "a.csv").write_text("user_id,x\na,1\n")
    (tmp_path / "b.csv").write_text("user_id,y\na,1\n")
    (tmp_path / "c.parquet").write_text("junk")
    (tmp_path / "d.txt").write_text("user_id\na\n")
    (tmp_path / "empty").mkdir()
    for paths, words in (
        (f"'{tmp_path}/*.tsv'", "matches nothing"),
        (f"{tmp_path}/a.csv {tmp_path}/b.csv", "the same header"),
        (f"{tmp_path}/a.csv {tmp_path}/a.csv", "more than once"),
        (f"{tmp_path}/a.csv {tmp_path}/c.parquet", "one format"),
        (f"{tmp_path}/c.parquet", "Parquet file"),
        (f"{tmp_path}/d.txt", "must end in"),
        (f"{tmp_path}/empty", "none in the directory"),
        (f"{tmp_path}/a.csv --format xml", "format must be one of"),
        (f"{tmp_path}/a.csv --memory 1K", "memory must be"),
        (f"{tmp_path}/a.csv --out {tmp_path}/x.txt", "out must end in"),
        (f"{tmp_path}/a.csv --out {tmp_path}/a.csv/x.csv", "out must be a file that can be written"),
        (f"{tmp_path}/a.csv --scheduler nowhere", "scheduler must be"),
    ):
        assert_one_sentence(groupdp(f"count {paths} --by user_id"), words)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.csv", "b.csv", "c.parquet", "d.txt", "empty"]
    assert groupdp(f"count {tmp_path}/d.txt --by user_id --format csv --json").json["people"] == 1


def test_a_file_whose_name_is_a_pattern_is_itself(tmp_path: Path):
    (tmp_path / "a[1]*.csv").write_text("user_id\nx\n")
    (tmp_path / "a1.csv").write_text("user_id\ny\n")
    assert counted(tmp_path / "a[1]*.csv") == {"x": 1}


def test_parquet_files_must_agree(tmp_path: Path):
    pyarrow.parquet.write_table(pyarrow.table({"user_id": [1, 2]}), tmp_path / "a.parquet")
    pyarrow.parquet.write_table(pyarrow.table({"user_id": ["1"], "x": [1]}), tmp_path / "b.parquet")
    with refused("files"):
        count(tmp_path, by="user_id")


def test_late_fields_and_mixed_ids_of_json_are_not_lost(tmp_path: Path):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"user_id": 7, "d": "2020-01-01"}\n' * 3 + '{"user_id": "7", "late": 1}\n{"user_id": "b"}\n')
    assert counted(path) == {"7": 4, "b": 1}
    found = bound(path, by="user_id", key=("d", "late"), at_most=4)
    assert found.table.column_names == ["user_id", "d", "late"]
    path.write_text('{"user_id": 7}\n{"x": 1}\n')
    with refused("'user_id'", value="1 row without it, row 2"):
        count(path, by="user_id")
    path.write_text('{"user_id": 7}\n{"user_id":\n')
    with pytest.raises(GroupDPError):
        count(path, by="user_id")


def test_standard_input():
    script = [*SCRIPT, "count", "-", "--by", "u", "--json"]
    done = subprocess.run(script, input="u,x\na,1\na,2\nb,3\n", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert '"people": 2' in done.stdout


def test_the_commands(tmp_path: Path):
    rows = tmp_path / "rows.csv"
    rows.write_text("user_id,k,source\n" + "".join(f"u{i % 7},{i},{'web' if i % 2 else 'books'}\n" for i in range(70)))
    answer = groupdp(f"count {rows} --by user_id --out {tmp_path / 'counts.csv'} --json").json
    assert (answer["rows"], answer["people"], answer["largest"]) == (70, 7, 10)
    assert (tmp_path / "counts.csv").read_text().splitlines()[:2] == ["user_id,examples", "u0,10"]
    line = f"bound {rows} --by user_id --key k --seed s"
    digests = {
        groupdp(f"{line} --at-most 3 --out {tmp_path / name} --json").json["digest"]
        for name in ("out.parquet", "out.csv", "out.jsonl")
    }
    assert len(digests) == 1
    for name in ("out.parquet", "out.csv", "out.jsonl"):
        assert set(counted(tmp_path / name).values()) == {3}
    again = f"{line} --at-most-per source=web:1,books:2 --out {tmp_path / 'out.csv'}"
    assert_one_sentence(groupdp(again), "out must be a new file", "--force")
    text = groupdp(f"{again} --force").output
    assert "21 of 70 examples kept (30.0 %)" in text
    auto = f"{line} --at-most auto --epsilon 8 --delta 1e-6 --batch-size 4 --steps 1000 --out {tmp_path / 'auto.csv'}"
    assert groupdp(f"{auto} --minimum-share 0.5 --json").json["at_most"] == 5
    for wrong, words in (
        (f"{auto} --force", "minimum_share must be given"),
        (f"{line} --out x.csv", "at_most must be given once"),
        (f"{line} --at-most 2 --epsilon 1 --out x.csv", "epsilon must be left out unless --at-most auto"),
        (f"{line} --at-most-per source --out x.csv", "at_most_per must look like"),
        (f"{line} --at-most-per source=web:1,web:2 --out x.csv", "one number for each source"),
        (f"{line} --at-most x --out x.csv", "at_most must be an integer"),
    ):
        assert_one_sentence(groupdp(wrong), words)


def test_the_first_row_without_a_person_is_named(tmp_path):
    file = tmp_path / "rows.csv"
    rows = [str(i % 97) for i in range(50_000)]
    rows[31_234] = rows[40_000] = ""
    file.write_text("user_id,x\n" + "".join(f"{user},{i}\n" for i, user in enumerate(rows)))
    with refused("'user_id'", value="2 rows without it, the first of them row 31235"):
        count(str(file), by="user_id")
    file.write_text("user_id,x\na,1\n,2\n")
    with refused("'user_id'", value="1 row without it, row 2"):
        count(str(file), by="user_id")


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz"])
@pytest.mark.parametrize(
    "content",
    [
        b"u,k\r\na,1\nb,2\r\nb,3\n",
        b"u,k\na,1\r\nb,2\rb,3",
        b'u,k\r\na,"x\r\ny"\nb,"5"" pipe"\r\nb,5" pipe\n',
        b'"u","k"\n"a","\n"\r\n"b","\r\n"\r"b",""\r',
    ],
)
def test_line_ends_may_be_mixed(tmp_path: Path, content: bytes, suffix: str):
    file = tmp_path / f"mixed{suffix}"
    file.write_bytes(gzip.compress(content) if suffix.endswith("gz") else content)
    counted = count(file, by="u", table=True)
    assert dict(zip(*counted.table.to_pydict().values(), strict=True)) == {"a": 1, "b": 2}
    kept = bound(file, by="u", key="k", at_most=9, kind="csv")
    quoted = [value for value in kept.table.column("k").to_pylist() if value and "x" in value]
    assert quoted in ([], ["x\r\ny"])  # a line end inside of a value is data


def test_line_ends_that_fall_between_blocks_are_seen(tmp_path: Path, monkeypatch):
    rows = [f"p{i % 7},{i}" for i in range(500)]
    for size in (5, 7, 16):
        monkeypatch.setattr("groupdp.data.relations._BLOCK", size)
        ends = ["\n", "\r\n", "\r"]
        text = "".join(f"{row}{ends[i % 3]}" for i, row in enumerate(["u,k", *rows]))
        (tmp_path / "mixed.csv").write_bytes(text.encode())
        assert count(tmp_path / "mixed.csv", by="u").rows == 500


@pytest.mark.parametrize("end", [b"\n", b""])
def test_a_line_that_is_too_long_is_refused_by_its_number(tmp_path: Path, monkeypatch, end: bytes):
    """DuckDB drops a row of 300 MB without a word: the file must be refused before DuckDB reads it."""
    monkeypatch.setattr("groupdp.data.relations._LONGEST_LINE", 2000)
    file = tmp_path / "long.csv"
    file.write_bytes(b"u,k\na,1\nb,2\na," + b"z" * 5000 + end)
    with refused("every line") as caught:
        count(file, by="u")
    assert caught.value.value.startswith("a longer line 4 of")


@pytest.mark.parametrize(
    ("header", "delimiter"),
    [('"a;b;c;d",u', ","), ('"a,b,c";u', ";"), ('"x\ny,,,,";u', ";"), ('"a""|||";u', ";"), ('"a,b"', ",")],
)
def test_delimiters_inside_of_quoted_names_are_part_of_the_name(tmp_path: Path, header: str, delimiter: str):
    file = tmp_path / "quoted.csv"
    file.write_text(f"{header}\n")
    names, found = read_header(str(file))
    assert found == delimiter
    assert len(names) == 1 + header.endswith("u")
    if header.endswith("u"):
        file.write_text(f"{header}\n1{delimiter}p\n2{delimiter}p\n")
        assert count(file, by="u").largest == 2


def test_columns_that_differ_only_in_case_are_refused_in_every_format(tmp_path: Path):
    table = pyarrow.table({"a": ["p"], "A": ["q"]})
    pyarrow.parquet.write_table(table, tmp_path / "case.parquet")
    (tmp_path / "case.jsonl").write_text('{"a": "p", "A": "q"}\n')
    (tmp_path / "late.jsonl").write_text('{"a": "p"}\n{"A": "q"}\n')
    for source in (table, tmp_path / "case.parquet", tmp_path / "case.jsonl", tmp_path / "late.jsonl"):
        with refused("columns"):
            count(source, by="a")
    numbered = pyarrow.table({"a": ["p"], "a_1": ["q"]})
    pyarrow.parquet.write_table(numbered, tmp_path / "fine.parquet")
    (tmp_path / "fine.jsonl").write_text('{"a": "p", "a_1": "q"}\n')
    for source in (numbered, tmp_path / "fine.parquet", tmp_path / "fine.jsonl"):
        assert count(source, by="a").rows == 1


#: One person in six spellings that look alike, and two others who do not.
ALIKE = ["zoe k", "zoe\u00a0k", "zoe\u200b k", "\ufeffzoe k", "zoe\u2009k", "z\u00adoe k"]


def test_people_who_look_alike_are_warned_about_with_their_number(tmp_path: Path):
    file = tmp_path / "rows.csv"
    file.write_text("u,k\n" + "".join(f"{user},{i}\n" for i, user in enumerate([*ALIKE, "Zoë", "zoe", "zoe"])))
    found = count(file, by="u")
    assert (found.people, found.alike) == (8, 6)
    assert bound(file, by="u", key="k", at_most=1).alike == 6
    outcome = groupdp(f"count '{file}' --by u")
    assert outcome.status == 0
    assert "the identifiers of 6 people differ only in invisible characters" in outcome.errors
    run = "--sampling-rate 0.01 --noise-multiplier 2 --steps 5 --delta 1e-6"
    assert "of 6 people differ" in groupdp(f"people '{file}' --by u {run}").errors
    assert "of 6 people differ" in groupdp(f"bound '{file}' --by u --at-most 1 -o '{tmp_path}/kept.csv'").errors
    plain = pyarrow.table({"u": ["a", "b", "\u00e9", "\u00a0c"]})
    assert count(plain, by="u").alike == 0


def test_identifiers_that_a_spreadsheet_would_compute_get_an_apostrophe(tmp_path: Path):
    users = ["=1+1", "+4", "-4", "@sum", "a=1", "'=x"]
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps({"u": user, "k": i}) + "\n" for i, user in enumerate(users)))
    count(file, by="u", out=tmp_path / "counts.csv")
    with open(tmp_path / "counts.csv", newline="") as written:
        found = [row[0] for row in list(csv.reader(written))[1:]]
    assert sorted(found) == sorted(["'=1+1", "'+4", "'-4", "'@sum", "a=1", "'=x"])
    run = "--sampling-rate 0.01 --noise-multiplier 2 --steps 5 --delta 1e-6"
    assert groupdp(f"people '{file}' --by u {run} --out '{tmp_path}/people.csv'").status == 0
    with open(tmp_path / "people.csv", newline="") as written:
        assert sorted(row[0] for row in list(csv.reader(written))[1:]) == sorted(found)
    count(file, by="u", out=tmp_path / "counts.parquet")
    assert set(pyarrow.parquet.read_table(tmp_path / "counts.parquet").column("u").to_pylist()) == set(users)
    numbers = pyarrow.table({"u": [-1, -1, 2]})
    count(numbers, by="u", out=tmp_path / "numbers.csv")
    assert "-1,2" in (tmp_path / "numbers.csv").read_text().split("\n")
