"""`groupdp curve`: the table, the picture, the CSV, and what is refused."""

from __future__ import annotations

import csv
import math

import pytest

from command_line import assert_one_sentence, groupdp
from groupdp import baselines

RUN = "--sampling-rate 0.01 --noise-multiplier 1 --steps 2000 --delta 1e-6"
SMALL = "--sampling-rate 0.01 --noise-multiplier 4 --steps 100 --delta 1e-6 --group-sizes 1:3"


def test_the_old_tool_s_infinity_is_shown_beside_the_tight_value():
    outcome = groupdp(f"curve {RUN} --group-sizes 8,9")
    rows = {line.split()[0]: line.split() for line in outcome.output.splitlines() if line.split()}
    assert outcome.status == 0
    assert rows["9"][1] == "40.8011"  # 40.80104..., rounded up
    assert rows["9"][2] == "26.5973"  # 26.59721..., rounded up
    assert 1000 < float(rows["9"][3]) < 10_000
    assert rows["9"][4] == "infinity"
    assert rows["8"][4] == "311.983"  # 311.98223...


def test_json_has_both_bounds_and_a_valid_infinity():
    answer = groupdp(f"curve {RUN} --group-sizes 9 --json").json
    (point,) = answer["points"]
    assert 40.80104 <= point["epsilon"]["lower"] <= point["epsilon"]["upper"] <= 40.80105
    assert point["old_tool"] == "Infinity"
    assert point["linear"]["upper"] == pytest.approx(9 * 2.955245911, rel=1e-9)


@pytest.mark.parametrize(
    ("text", "sizes"),
    [("1:3", [1, 2, 3]), ("1:7:3", [1, 4, 7]), ("2:2", [2]), ("4,1,2,2", [1, 2, 4]), ("5", [5])],
)
def test_group_sizes(text, sizes):
    answer = groupdp(f"curve {SMALL} --group-sizes {text} --json").json
    assert [point["group_size"] for point in answer["points"]] == sizes


@pytest.mark.parametrize(
    "text",
    ["", "0:3", "3:1", "1:3:0", "1:", ":3", "a:b", "1;2", "1,,2", "-1", "1:1000000", "1.5", "1:2:3:4", "0", "200000"],
)
def test_bad_group_sizes_are_refused(text):
    assert_one_sentence(groupdp(f"curve {SMALL} --group-sizes '{text}'"), "group_sizes must")


@pytest.mark.parametrize(
    ("suffix", "magic"), [("png", b"\x89PNG"), ("pdf", b"%PDF"), ("svg", b"<?xml"), ("PNG", b"\x89PNG")]
)
def test_the_suffix_decides_the_picture(tmp_path, suffix, magic):
    target = tmp_path / f"curve.{suffix}"
    assert groupdp(f"curve {SMALL} --plot {target}").status == 0
    assert target.read_bytes().startswith(magic)
    assert [path.name for path in tmp_path.iterdir()] == [target.name]


def test_csv_has_the_same_numbers_as_json(tmp_path):
    target = tmp_path / "curve.csv"
    answer = groupdp(f"curve {SMALL} --csv {target} --json").json
    with target.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == list(baselines.COLUMNS)
    for row, point in zip(rows, answer["points"], strict=True):
        assert float(row["epsilon_upper"]) == point["epsilon"]["upper"]
        assert float(row["epsilon_lower"]) == point["epsilon"]["lower"]
        assert float(row["vadhan_lower"]) == point["vadhan_lower"] <= point["vadhan_upper"]
        assert float(row["vadhan_upper"]) == point["vadhan_upper"]


def test_infinity_in_csv_is_readable(tmp_path):
    target = tmp_path / "curve.csv"
    line = "curve --sampling-rate 0.5 --noise-multiplier 0 --steps 2 --delta 1e-6 --group-sizes 1:2"
    assert groupdp(f"{line} --csv {target} --plot {tmp_path / 'x.svg'}").status == 0
    with target.open(newline="") as file:
        assert all(float(row["epsilon_upper"]) == math.inf for row in csv.DictReader(file))


@pytest.mark.parametrize("name", ["curve.gif", "curve", "curve.png.exe", ".png"])
def test_an_unknown_kind_of_picture_is_refused_before_any_work(tmp_path, name, monkeypatch):
    monkeypatch.setattr(baselines, "compare", lambda *_, **__: pytest.fail("worked first"))
    assert_one_sentence(groupdp(f"curve {SMALL} --plot {tmp_path / name}"), "plot must end in")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("option", ["plot", "csv"])
def test_a_place_that_cannot_be_written_is_refused_before_any_work(tmp_path, option, monkeypatch):
    monkeypatch.setattr(baselines, "compare", lambda *_, **__: pytest.fail("worked first"))
    (tmp_path / "file").write_text("x")
    assert_one_sentence(groupdp(f"curve {SMALL} --{option} {tmp_path}/file/x.png"), f"{option} must be a file")


@pytest.mark.parametrize("failure", [KeyboardInterrupt, ZeroDivisionError])
def test_nothing_is_left_behind_when_it_stops_half_way(tmp_path, monkeypatch, failure):
    def stop(*_, **__):
        raise failure

    monkeypatch.setattr(baselines, "compare", stop)
    line = f"curve {SMALL} --plot {tmp_path}/new/a.png --csv {tmp_path}/new/a.csv"
    if failure is KeyboardInterrupt:
        assert groupdp(line).status == 130
    else:
        with pytest.raises(failure):
            groupdp(line)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("options", ["--delta nan", "--delta 0", "--delta 1", "--steps x", "--adjacency both"])
def test_bad_values_are_refused(options):
    assert_one_sentence(groupdp(f"curve {SMALL} {options}"), options.split()[0].removeprefix("--"), "must be")
