"""Every picture says its run, explains all that it draws, and keeps to one palette."""

from __future__ import annotations

import re

import numpy as np
import pytest

from command_line import groupdp
from groupdp import DPSGD, PoissonSampling
from groupdp import figures as audit_picture
from groupdp.audit import audit_worst_case
from groupdp.baselines import Point
from groupdp.bounds import Bounds
from groupdp.drawing import COLOURS, GREY, new_figure, title_lines
from groupdp.figures import draw_curves, rates_to_draw
from groupdp.figures import studies as people
from groupdp.people import PeopleView

RUN = "--sampling-rate 256/60000 --noise-multiplier 2 --steps 400"
COMMANDS = {
    "curve": (f"curve {RUN} --delta 1e-6 --group-sizes 1:4", ("δ = 1e-06", "this analysis (tight)")),
    "tradeoff": (
        f"tradeoff {RUN} --group-size 3 --steps 20000",
        (
            "groups of up to 3",
            "guessing",
            "missed by the best attack, at least",
            "detected by the best attack, at most",
        ),
    ),
    "spend": (
        f"spend {RUN} --delta 1e-6 --group-size 3 --target 0.5",
        ("groups of up to 3", "δ = 1e-06", "target: epsilon = 0.5", "last step within it", "at the end of each epoch"),
    ),
    "sweep": (f"sweep {RUN} --delta 1e-6 --vary group_size=1:4", ("δ = 1e-06", "noise multiplier 2", "400 steps")),
    "people": (
        f"people counts.csv --counts n {RUN} --delta 1e-6 --thresholds 0.5,3",
        ("δ = 1e-06", "30 people", "thresholds", "0.5: "),
    ),
    "cap": (
        "cap counts.csv --counts n --epsilon 8 --delta 1e-3 --batch-size 8 --epochs 5 --minimum-share 0.6",
        ("batches of 8", "5 epochs", "ε = 8", "recommended", "keeps too few examples", "60 % of the examples"),
    ),
    "audit": (
        "audit worst-case --sampling-rate 0.1 --noise-multiplier 6 --steps 50 --group-size 2 --trials 500",
        (
            "groups of up to 2",
            "500 runs of each kind",
            "interval, remove",
            "band, add",
            "guessing",
            "interval reaches 0",
        ),
    ),
}
#: Greys of the grid, of texts and of the heat map's frame.
GREYS = {"#dddddd", "#eeeeee", "#ffffff", "#000000", "#333333", "#444444", GREY.lower()}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_picture_says_its_run_and_has_one_palette(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "counts.csv").write_text("n\n" + "".join(f"{1 + i % 6}\n" for i in range(30)))
    command, said = COMMANDS[name]
    outcome = groupdp(f"{command} --plot picture.svg")
    assert outcome.status == 0, outcome
    text = (tmp_path / "picture.svg").read_text()
    for words in said:
        assert words in text, words
    if name not in ("cap", "audit"):
        assert "sampling rate 0.004266666666666667" in text
    colours = {colour.lower() for colour in re.findall(r"#[0-9a-fA-F]{6}", text)}
    assert colours <= {colour.lower() for colour in COLOURS} | GREYS


def test_titles_have_inputs_as_they_were_given_and_break_between_words():
    title = title_lines(["sampling rate 0.004266666666666667, add-or-remove"], 40)
    assert title.split("\n") == ["sampling rate 0.004266666666666667,", "add-or-remove"]


def test_titles_of_many_phases_name_the_first_ones_and_count_the_others():
    phases = [f"phase {number}: Poisson sampling, 10 steps" for number in range(1, 7)]
    assert title_lines([*phases, "groups of up to 9"]).split("\n") == [
        *phases[:2],
        "and 4 more phases",
        "groups of up to 9",
    ]
    assert title_lines([*phases[:3], "groups of up to 9"]).split("\n") == [*phases[:3], "groups of up to 9"]
    long = [f"phase {number}: truncated {'Poisson sampling ' * 6}".strip() for number in range(1, 7)]
    lines = title_lines([*long, "groups of up to 9"]).split("\n")
    assert lines[-2:] == ["and 5 more phases", "groups of up to 9"]
    assert " ".join(lines[:-2]) == long[0]
    assert len(lines) == 4


@pytest.mark.parametrize(("sizes", "marked"), [([5], True), ([5, 6], False)])
def test_a_single_group_size_is_marked_in_every_curve(sizes, marked):
    one = Bounds(1.0, 1.0)
    points = [Point(group_size=size, epsilon=one, linear=one, vadhan=Bounds(2.0, 2.0), old_tool=3.0) for size in sizes]
    (axes,) = draw_curves([("", points)]).axes
    lines = {line.get_label(): line for line in axes.get_lines()}
    assert (lines["k times one example (reference)"].get_marker() not in (None, "None", "")) == marked
    assert all(line.get_marker() not in (None, "None", "") for label, line in lines.items() if "reference" not in label)


def test_the_trade_off_curve_is_drawn_without_corners():
    """Rates rise, and on the linear axis neighbours are never further apart than a fifth of the larger."""
    rates = rates_to_draw()
    assert (rates[1:] > rates[:-1]).all()
    bend = rates[rates >= 0.002]
    assert ((bend[1:] - bend[:-1]) <= 0.2 * bend[1:]).all()


def test_the_curve_of_people_begins_at_nobody():
    view = PeopleView(
        delta=1e-6,
        adjacency="add-or-remove",
        counts=(1, 4),
        people=(3, 1),
        epsilon=(Bounds(1.0, 1.0), Bounds(5.0, 5.0)),
    )
    (curve, *_) = people.draw_people(view, title="a run", thresholds=(2.0,)).axes[0].get_lines()
    assert list(curve.get_ydata()) == [0.0, 75.0, 100.0, 100.0]


def test_the_picture_of_an_audit_shows_every_measurement_and_no_negative_epsilon():
    run = DPSGD(sampling=PoissonSampling(rate=0.1), noise_multiplier=2.0, steps=5)
    audit = audit_worst_case(run, group_size=2, delta=1e-6, trials=500, seed=1)
    axes = new_figure(5.0, 4.0).subplots()
    audit_picture.draw_delta(axes, audit)
    dots = [line for line in axes.get_lines() if line.get_marker() in (".", "o") and len(line.get_xdata())]
    places = np.concatenate([line.get_xdata() for line in dots])
    heights = np.concatenate([line.get_ydata() for line in dots])
    assert len(places) == sum(len(one.epsilons) for one in audit.measured)
    assert places.min() == 0.0
    assert heights.min() >= axes.get_ylim()[0] > 0.0
    opened = sum(len(line.get_xdata()) for line in dots if line.get_markerfacecolor() == "white")
    assert opened == sum(int((one.lower == 0.0).sum()) for one in audit.measured) > 0
