"""`groupdp figures`: both figures of the paper, and what is measured for its claims."""

from __future__ import annotations

import csv
import math
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from command_line import assert_one_sentence, groupdp
from groupdp.cli.tools import fitted
from groupdp.figures import paper

GROUP_SIZES = (1, 2, 5, 6, 7, 8, 9, 10)
FILES = ["fixed-batch.csv", "fixed-batch.png", "poisson.csv", "poisson.png", "summary.md"]


@pytest.fixture(scope="module")
def panels():
    """The study on the group sizes that its claims are about."""
    return paper.study(group_sizes=GROUP_SIZES)


@pytest.fixture
def computed(panels, monkeypatch):
    """Nothing is computed again."""
    monkeypatch.setattr(paper, "study", lambda **_: panels)


def test_the_setting_is_the_paper_s(panels):
    assert [(panel.sampling, panel.noise_multiplier) for panel in panels] == [
        ("poisson", 1.0),
        ("poisson", 2.0),
        ("poisson", 4.0),
        ("fixed-batch", 2.0),
        ("fixed-batch", 4.0),
        ("fixed-batch", 8.0),
    ]


def test_the_summary_states_what_was_measured(panels):
    text = paper.summary(panels)
    for wanted in (
        "between 40.80104471 and 40.80104472",
        "| Vadhan's lemma as TensorFlow Privacy computes it | infinite |",
        "poisson, σ = 1, for every k >= 9",
        "poisson, σ = 2, for no k up to 10",
        "faster than exponential",
        "smaller at every point with k > 1",
        "the ratio grows with k",
    ):
        assert wanted in text, wanted
    assert "NOT" not in text


def test_the_summary_would_say_so_if_a_claim_failed(panels):
    """The verdicts are computed: with the baseline below our epsilon they turn."""
    from dataclasses import replace

    from groupdp.bounds import Bounds

    wrong = [
        replace(panel, points=tuple(replace(point, vadhan=Bounds(0.5, 0.5), old_tool=1.0) for point in panel.points))
        for panel in panels
    ]
    text = paper.summary(wrong)
    assert "NOT every" in text
    assert "does NOT always grow" in text
    assert "for no k up to 10" in text
    assert "faster than exponential" not in text


def test_the_data_of_a_figure(panels):
    own = [panel for panel in panels if panel.sampling == "fixed-batch"]
    rows = list(csv.DictReader(paper.figure_csv(own).splitlines()))
    assert len(rows) == 3 * 8
    assert {row["noise_multiplier"] for row in rows} == {"2.0", "4.0", "8.0"}
    nine = next(row for row in rows if (row["noise_multiplier"], row["group_size"]) == ("2.0", "9"))
    assert float(nine["epsilon_upper"]) == pytest.approx(40.78298258722, rel=1e-11)
    assert float(nine["old_tool"]) == math.inf


def test_figures_writes_everything_and_says_where(computed, panels, tmp_path, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)  # not fitted to a width
    target = tmp_path / "figures"
    outcome = groupdp(f"figures --out {target}")
    assert (outcome.status, outcome.errors) == (0, "")
    assert sorted(path.name for path in target.iterdir()) == FILES
    assert paper.summary(panels) in outcome.output
    for name in FILES:
        assert str(target / name) in outcome.output


def test_other_kinds_and_json(computed, tmp_path):
    answer = groupdp(f"figures --out {tmp_path} --kind svg --json").json
    assert (tmp_path / "poisson.svg").read_text().startswith("<?xml")
    assert len(answer["panels"]) == 6
    assert answer["panels"][0]["points"][6]["old_tool"] == "Infinity"
    assert str(tmp_path / "poisson.svg") in answer["files"]


def test_bad_arguments_are_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setattr(paper, "study", lambda **_: pytest.fail("worked first"))
    (tmp_path / "file").write_text("x")
    assert_one_sentence(groupdp(f"figures --out {tmp_path}/file"), "out must be")
    assert_one_sentence(groupdp(f"figures --out {tmp_path} --kind gif"), "kind must be")
    assert_one_sentence(groupdp(f"figures --out {tmp_path} extra"), "extra")


def test_ctrl_c_leaves_nothing_behind(tmp_path):
    """A real process, interrupted while it computes."""
    target = tmp_path / "figures"
    script = Path(sys.executable).with_name("groupdp")
    process = subprocess.Popen(
        [script, "figures", "--out", target], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        while not target.exists():  # its temporary files are there as soon as it works
            assert process.poll() is None, process.communicate()
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate()
    finally:
        process.kill()
    assert process.returncode == 130
    assert output == ""
    assert "Traceback" not in errors
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("columns", [80, 60])
def test_the_summary_of_the_figures_fits_the_terminal_and_loses_nothing(columns, monkeypatch, capsys):
    summary = "\n".join(
        [
            "# Title",
            "",
            "| analysis | ε |",
            "|---|---|",
            "| Vadhan's lemma as TensorFlow Privacy computes it, in a long row of a table | between 1 and 2 |",
            "",
            "A paragraph " + "of many words " * 12,
        ]
    )
    monkeypatch.setenv("COLUMNS", str(columns))
    print(fitted(summary), end="")
    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines())) <= columns
    words = re.findall(r"\w+", summary.replace("|---|---|", ""))
    assert re.findall(r"\w+", shown).count("words") == words.count("words") == 12
    assert set(words) <= set(re.findall(r"\w+", shown))
    monkeypatch.delenv("COLUMNS")
    print(fitted(summary), end="")
    assert capsys.readouterr().out == summary + "\n"
