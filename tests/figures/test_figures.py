"""Pictures: what is drawn is the data, infinite values are marked, nothing depends on colour alone."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from groupdp import Bounds
from groupdp.baselines import Point
from groupdp.drawing import check_picture_name, infinity_sign, power_of_ten, save_figure
from groupdp.figures import draw_curves
from refusals import refused


def point(k: int, *, old_tool: float) -> Point:
    return Point(
        group_size=k,
        epsilon=Bounds(2.0 * k - 0.1, 2.0 * k),
        linear=Bounds(1.5 * k, 1.5 * k),
        vadhan=Bounds(3.0**k, 3.0**k),
        old_tool=old_tool,
    )


POINTS = [point(k, old_tool=4.0**k if k < 6 else math.inf) for k in range(1, 11)]


def lines_by_label(axis):
    return {line.get_label(): line for line in axis.get_lines()}


def test_curves_show_the_upper_bounds():
    (axis,) = draw_curves([("panel", POINTS)]).axes
    lines = lines_by_label(axis)
    ours = lines["this analysis (tight)"]
    assert list(ours.get_xdata()) == list(range(1, 11))
    assert list(ours.get_ydata()) == [2.0 * k for k in range(1, 11)]
    assert list(lines["Vadhan's lemma, geometric form, exact curve"].get_ydata()) == [3.0**k for k in range(1, 11)]
    assert axis.get_yscale() == "log"


def test_infinite_points_are_marked_at_the_upper_edge_and_named():
    figure = draw_curves([("panel", POINTS)])
    (axis,) = figure.axes
    marks = [line for line in axis.get_lines() if line.get_marker() is infinity_sign()]
    assert len(marks) == 1
    assert marks[0].get_xdata()[0] == 6
    assert all(0.9 < y <= 1.0 for y in marks[0].get_ydata())  # in units of the axis, not of the data
    assert any(text.get_text() == "from k = 6" for text in axis.texts)
    assert "infinite" in [text.get_text() for text in figure.legends[0].get_texts()]
    old = lines_by_label(axis)["Vadhan's lemma, TensorFlow Privacy"]
    assert sum(math.isnan(y) for y in old.get_ydata()) == 5


def test_finite_curves_have_no_infinity_in_the_legend():
    figure = draw_curves([("panel", POINTS[:5])])
    assert "infinite" not in [text.get_text() for text in figure.legends[0].get_texts()]


def test_no_two_curves_share_line_and_marker():
    (axis,) = draw_curves([("panel", POINTS)]).axes
    styles = {(line.get_linestyle(), str(line._unscaled_dash_pattern), line.get_marker()) for line in axis.get_lines()}
    assert len(styles) == len(axis.get_lines())


def test_colours_differ_in_lightness_or_marker_for_greyscale():
    """Printed in grey, the two solid-looking curves with markers must still be told apart by marker shape."""
    (axis,) = draw_curves([("panel", POINTS)]).axes
    markers = [line.get_marker() for line in axis.get_lines() if line.get_marker() not in ("None", None)]
    assert len(set(markers)) == len(markers)


@pytest.mark.parametrize("panels", [1, 3])
def test_nothing_is_cut_off(panels):
    figure = draw_curves([(f"panel {number}", POINTS) for number in range(panels)], title="title")
    figure.canvas.draw()
    width, height = figure.get_size_inches() * figure.dpi
    boxes = [figure.legends[0].get_window_extent()]
    boxes += [axis.get_tightbbox() for axis in figure.axes]
    for box in boxes:
        assert box.x0 >= 0
        assert box.y0 >= 0
        assert box.x1 <= width
        assert box.y1 <= height


def test_everything_infinite_is_still_a_picture(tmp_path):
    points = [
        Point(
            group_size=1,
            epsilon=Bounds(math.inf, math.inf),
            linear=Bounds(math.inf, math.inf),
            vadhan=Bounds(math.inf, math.inf),
            old_tool=math.inf,
        )
    ]
    save_figure(draw_curves([("panel", points)]), tmp_path / "x.png")
    assert (tmp_path / "x.png").stat().st_size > 1000


def test_the_same_data_give_the_same_file(tmp_path):
    for suffix in ("svg", "pdf", "png"):
        for name in ("one", "two"):
            save_figure(draw_curves([("panel", POINTS)]), tmp_path / f"{name}.{suffix}")
        assert (tmp_path / f"one.{suffix}").read_bytes() == (tmp_path / f"two.{suffix}").read_bytes()


def test_unknown_suffixes_are_refused():
    with refused("plot"):
        check_picture_name("plot", "x.jpeg")


@pytest.mark.parametrize(
    ("value", "text"), [(1000.0, "10³"), (1.0, "10⁰"), (1e-12, "10⁻¹²"), (0.1 + 0.2, "0.3"), (20.0, "20"), (0.0, "0")]
)
def test_powers_of_ten_are_plain_characters(value, text):
    assert power_of_ten(value) == text


def test_long_numbers_have_room_beside_the_axis():
    points = [replace(point(k, old_tool=2.0), vadhan=None, epsilon=Bounds(1e-5, 2e-5 * k)) for k in (1, 2)]
    figure = draw_curves([("panel", points)], title="title")
    figure.canvas.draw()
    assert figure.axes[0].get_tightbbox().x0 >= 0


def test_what_the_lemma_gives_is_drawn_as_a_bar_where_only_an_interval_is_known():
    wide = [replace(POINTS[3], vadhan=Bounds(20.0, 90.0)), POINTS[4]]
    figure = draw_curves([("", wide)])
    bars = [line.get_data() for line in figure.axes[0].get_lines() if list(line.get_xdata()) == [4, 4]]
    assert [[*map(float, ends)] for _, ends in bars] == [[20.0, 90.0]]
