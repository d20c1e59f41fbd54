"""Pictures of sweeps lose no point: infinite, zero and refused ones are marked, and the legend says what they are."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from matplotlib.colors import to_hex

from groupdp.drawing import BLUE, ORANGE, save_figure
from groupdp.figures.studies import draw_sweep
from groupdp.sweeps import Row


def row(epsilon: float | None, **values: Any) -> Row:
    return Row(values, epsilon, epsilon, epsilon is not None, "no such batch" if epsilon is None else None)


def marks(axes: Any, name: str) -> list[tuple[list[float], str]]:
    """(places, colour) of the signs that the legend calls `name`."""
    lines = axes.get_lines()
    (sign,) = (line for line in lines if line.get_label() == name)
    alike = [line for line in lines if line is not sign and str(line.get_marker()) == str(sign.get_marker())]
    return [(list(line.get_xdata()), line.get_color()) for line in alike]


def legend_of(owner: Any) -> list[str]:
    return [text.get_text() for text in owner.get_texts()]


def test_curves_mark_infinite_zero_and_refused_points(tmp_path):
    found = {(0, 1): math.inf, (1, 1): 900.0, (2, 1): 1.0, (0, 0): math.inf, (1, 0): 0.0, (2, 0): None}
    rows = [row(epsilon, noise_multiplier=x, group_size=k) for (x, k), epsilon in found.items()]
    figure = draw_sweep(rows, title="a run")
    (axes,) = figure.axes
    save_figure(figure, tmp_path / "picture.png")
    assert marks(axes, "infinite") == [([0], BLUE), ([0], ORANGE)]
    assert marks(axes, "epsilon = 0") == [([1], ORANGE)]
    assert marks(axes, "refused") == [([2], ORANGE)]
    assert legend_of(axes.get_legend())[2:] == ["infinite", "epsilon = 0", "refused"]
    low, high = axes.get_ylim()  # the marks at the edges have room of their own
    assert low < 0.7
    assert high > 1300.0


def test_a_curve_of_finite_points_has_no_legend_of_marks():
    (axes,) = draw_sweep([row(2.0, steps=1), row(0.0, steps=2)], title="a run").axes
    assert axes.get_legend() is None
    assert list(axes.get_lines()[0].get_ydata()) == [2.0, 0.0]


@pytest.mark.parametrize("epsilon", [math.inf, None])
def test_points_without_any_finite_one_are_drawn(tmp_path, epsilon):
    figure = draw_sweep([row(epsilon, noise_multiplier=0.0)], title="a run")
    save_figure(figure, tmp_path / "picture.png")
    assert marks(figure.axes[0], "refused" if epsilon is None else "infinite") == [([0.0], BLUE)]
    low, high = figure.axes[0].get_xlim()
    assert low < 0.0 < high


def test_among_many_points_one_that_no_line_reaches_is_marked():
    rows = [row(5.0 if step in (7, 50, 51) else math.inf, steps=step) for step in range(60)]
    curve = draw_sweep(rows, title="a run").axes[0].get_lines()[0]
    assert curve.get_marker() == "."
    assert list(curve.get_markevery()) == [7]


def test_many_points_on_a_line_have_no_markers(tmp_path):
    figure = draw_sweep([row(5.0, steps=step) for step in range(60)], title="a run")
    save_figure(figure, tmp_path / "picture.png")
    assert list(figure.axes[0].get_lines()[0].get_markevery()) == []


def test_a_heat_map_has_a_colour_and_a_word_for_every_kind(tmp_path):
    odd = {(0, 3): math.inf, (1, 4): None, (2, 0): 0.0}
    rows = [row(odd.get((x, k), 1.0 + k), noise_multiplier=x, group_size=k) for x in range(3) for k in range(10)]
    figure = draw_sweep(rows, title="a run")
    save_figure(figure, tmp_path / "picture.png")
    assert legend_of(figure.legends[0]) == ["infinite", "epsilon = 0", "refused"]
    _, *others = [mesh for mesh in figure.axes[0].collections if type(mesh).__name__ == "QuadMesh"]
    kinds = zip(others, figure.legends[0].get_patches(), ((0, 3), (2, 0), (1, 4)), strict=True)
    for mesh, patch, (x, k) in kinds:
        seen = ~np.ma.getmaskarray(mesh.get_array()).reshape(10, 3)
        assert np.argwhere(seen).tolist() == [[k, x]]
        assert to_hex(mesh.get_cmap()(0)) == to_hex(patch.get_facecolor())


def test_a_heat_map_of_infinite_points_alone_is_drawn(tmp_path):
    rows = [row(math.inf, noise_multiplier=x, group_size=k) for x in range(3) for k in range(10)]
    save_figure(draw_sweep(rows, title="a run"), tmp_path / "picture.png")
