"""Every picture says its run, explains all that it draws, and keeps to one palette."""

from __future__ import annotations

import re

import pytest

from command_line import groupdp
from groupdp.bounds import Bounds
from groupdp.figures import people
from groupdp.figures.style import COLOURS, GREY, title_lines
from groupdp.figures.tradeoff import rates_to_draw
from groupdp.people.view import PeopleView

RUN = "--sampling-rate 256/60000 --noise-multiplier 2 --steps 400"
COMMANDS = {
    "curve": (f"curve {RUN} --delta 1e-6 --group-sizes 1:4", ("δ = 1e-06", "this analysis (tight)")),
    "tradeoff": (f"tradeoff {RUN} --group-size 3", ("groups of up to 3", "guessing", "the best attack")),
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
        "audit worst-case --sampling-rate 0.1 --noise-multiplier 2 --steps 5 --group-size 2 --trials 500",
        ("groups of up to 2", "500 runs of each kind", "interval, remove", "band, add", "guessing"),
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
        assert "sampling_rate = 0.00426667" in text
    colours = {colour.lower() for colour in re.findall(r"#[0-9a-fA-F]{6}", text)}
    assert colours <= {colour.lower() for colour in COLOURS} | GREYS


def test_titles_have_short_numbers_and_break_between_words():
    title = title_lines(["sampling_rate = 0.004266666666666667, add-or-remove"], 30)
    assert title.split("\n") == ["sampling_rate = 0.00426667,", "add-or-remove"]


def test_the_trade_off_curve_is_drawn_without_corners():
    """Rates rise, and on the linear axis neighbours are never further apart than a fifth of the larger."""
    rates = rates_to_draw()
    assert (rates[1:] > rates[:-1]).all()
    bend = rates[rates >= 0.002]
    assert ((bend[1:] - bend[:-1]) <= 0.2 * bend[1:]).all()


def test_the_curve_of_people_begins_at_nobody(monkeypatch):
    drawn = []
    monkeypatch.setattr(people, "save_figure", lambda figure, path: drawn.append(figure))
    view = PeopleView(
        delta=1e-6,
        adjacency="add-or-remove",
        counts=(1, 4),
        people=(3, 1),
        epsilon=(Bounds(1.0, 1.0), Bounds(5.0, 5.0)),
    )
    people.draw_people(view, "picture.png", title="a run", thresholds=(2.0,))
    (curve, *_) = drawn[0].axes[0].get_lines()
    assert list(curve.get_ydata()) == [0.0, 75.0, 100.0, 100.0]
