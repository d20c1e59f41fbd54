"""The benchmark's own arithmetic: what counts as an error, a violation or a failure, and how ratios are reported."""

from __future__ import annotations

import csv
import io
import json
import sys
from typing import Any

import pytest

from paths import ROOT

FOLDER = ROOT / "benchmarks"
sys.path.insert(0, str(FOLDER))

import outcomes  # noqa: E402
import report  # noqa: E402
import truth  # noqa: E402
import work  # noqa: E402

CASE = work.item("paper", "k=4, sigma=1", [work.poisson("1")], work.MIXTURES, group_size=4)
CORNER = work.item("corner", "odd", [work.poisson("7")], [work.GROUPDP, work.PRV_DEFAULT, work.RDP], note="made up")
EPSILON = 14.5


def table_of(answers: list[tuple[work.Item, work.Setting, dict[str, Any]]]) -> report.Table:
    results = {
        "machine": {"processor": "a processor", "cores": 2, "system": "a system", "python": "3.11"},
        "limits": {"paper": 150.0, "corner": 60.0},
        "started": ["today"],
        "finished": "today",
        "tools": {"dp_accounting_pld": {"dp-accounting": "0.6.0"}},
        "results": {report.result_key(item, setting): answer for item, setting, answer in answers},
    }
    truths = {truth.key_of(item): {"epsilon": str(EPSILON)} for item in (CASE, CORNER)}
    return report.Table(results, truths, [CASE, CORNER])


def test_ratios_are_peer_time_over_our_time_and_peer_error_over_our_width() -> None:
    ours = outcomes.judge({"value": 14.75, "lower": 14.25, "seconds": 0.5}, claim="bounds", truth=EPSILON)
    peer = outcomes.judge({"value": 18.5, "seconds": 64.0}, claim="upper bound", truth=EPSILON)
    assert ours.width == 0.5
    assert peer.error == 4.0
    assert outcomes.time_ratio(peer, ours) == 128.0
    assert outcomes.error_ratio(peer, ours) == 8.0


@pytest.mark.parametrize(
    ("answer", "claim", "kind"),
    [
        ({"value": 14.4, "seconds": 1.0}, "upper bound", "violation"),
        ({"value": 14.4, "seconds": 1.0}, "estimate", "value"),
        ({"value": 14.6, "lower": 14.55, "seconds": 1.0}, "bounds", "violation"),
        ({"value": 14.6, "lower": 0.0, "seconds": 1.0}, "bounds", "value"),
        ({"value": "inf", "seconds": 1.0}, "upper bound", "infinite"),
        ({"value": "nan", "seconds": 1.0}, "upper bound", "infinite"),
        ({"timeout": 150.0}, "upper bound", "timeout"),
        ({"error": "MemoryError"}, "upper bound", "error"),
        (None, "upper bound", "missing"),
    ],
)
def test_what_an_answer_is_worth(answer: dict[str, Any] | None, claim: str, kind: str) -> None:
    assert outcomes.judge(answer, claim=claim, truth=EPSILON).kind == kind


def test_a_lower_bound_of_zero_still_makes_a_width() -> None:
    assert outcomes.judge({"value": 0.25, "lower": 0.0, "seconds": 1.0}, claim="bounds", truth=None).width == 0.25


def test_a_failure_has_no_ratio_and_a_timeout_only_a_lower_bound() -> None:
    ours = outcomes.judge({"value": 14.75, "lower": 14.25, "seconds": 0.5}, claim="bounds", truth=EPSILON)
    failed = outcomes.judge({"error": "ValueError: no", "seconds": 3.0}, claim="upper bound", truth=EPSILON)
    stuck = outcomes.judge({"timeout": 150.0}, claim="upper bound", truth=EPSILON)
    assert outcomes.time_ratio(failed, ours) is None
    assert outcomes.error_ratio(failed, ours) is None
    assert outcomes.time_ratio(stuck, ours) == 300.0
    assert outcomes.error_ratio(stuck, ours) is None


def test_the_report_says_what_happened() -> None:
    table = table_of(
        [
            (CASE, work.GROUPDP, {"value": 14.75, "lower": 14.25, "seconds": 0.001}),
            (CASE, work.PLD_DEFAULT, {"value": 14.625, "seconds": 0.4}),
            (CASE, work.PLD_COARSE, {"value": 13.0, "seconds": 0.02}),
            (CASE, work.PLD_MEDIUM, {"timeout": 150.0}),
            (CORNER, work.GROUPDP, {"value": 14.5, "lower": 14.5, "seconds": 0.001}),
            (CORNER, work.PRV_DEFAULT, {"error": "ValueError: too | small"}),
        ]
    )
    text = report.text(table)
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("| ")]
    measured = list(csv.DictReader(io.StringIO(report.measurements(table))))
    detail = {row["setting"]: row for row in measured if row["case"] == "k=4, sigma=1"}
    default = detail[work.PLD_DEFAULT["name"]]
    # 0.4 s against 0.001 s; an error of 0.125 against a width of 0.5
    assert [default[name] for name in ("seconds", "time_ratio", "error_ratio")] == ["0.4", "400", "0.25"]
    assert "**violates the truth**: below the truth by 1.5" in detail[work.PLD_COARSE["name"]]["remark"]
    assert detail[work.PLD_MEDIUM["name"]]["time_ratio"] == "at least 150 000"
    promised = [row for row in rows if row[1].startswith("time ratio at least 1 000")]
    assert [row[2:] for row in promised] == [["400 (missed)", ""]]
    assert [row for row in measured if row["remark"] == "fails: ValueError: too / small"]
    assert [row for row in measured if row["tool"] == "dp_accounting RDP" and row["remark"] == "not run"]
    assert "2 items, 2 of them checked against the truth, 0 outside its own bounds" in text


def test_ratios_are_rounded_down() -> None:
    assert report._number(1999.99) == "1 900"
    assert report._number(999.9) == "990"
    assert report._number(0.999) == "0.99"


def test_every_item_has_settings_and_every_calibration_one_phase() -> None:
    for item in work.items():
        assert item["settings"][0] == work.GROUPDP
        assert item["section"] in report.SECTIONS
        assert item["question"] == "epsilon" or len(item["phases"]) == 1


def test_the_paper_s_setting_has_golden_truth_for_every_case() -> None:
    stored = json.loads((FOLDER / "truth.json").read_text())
    for item in work.items():
        if item["section"] in ("paper", "fixed"):
            assert stored[truth.key_of(item)]["source"] == "golden table"
