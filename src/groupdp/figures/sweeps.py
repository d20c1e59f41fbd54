"""Pictures of a sweep: curves for one varying name (or a second with few values), a heat map for two.

Every point is shown: those without a height (infinite, zero on a logarithmic axis, refused) are marked.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from groupdp.drawing import COLOURS, ORANGE, finish, infinity_sign, new_figure
from groupdp.errors import InvalidArgument
from groupdp.printing import given
from groupdp.sweeps.sweep import Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: A second name with at most this many values is drawn as curves.
_MOST_CURVES = 8
_LINES = ("-", "--", "-.", ":")
#: At most this many points of a curve are marked one by one.
_MOST_MARKERS = 40
#: What has no height, in the order of the legend: its colour in a heat map, and the edge where curves have it.
_MARKS = {"infinite": (ORANGE, "top"), "epsilon = 0": ("#ffffff", "bottom"), "refused": ("#999999", "bottom")}
#: A row of marks at an edge, as a fraction of the axis.
_ROW = 0.05


def check_names(names: Sequence[str]) -> None:
    """Refuse what has more dimensions than a picture."""
    if len(names) > 2:
        raise InvalidArgument("plot", len(names), "be of one or two varying names", f"{', '.join(names)}")


def draw_sweep(rows: Sequence[Row], *, title: str) -> Figure:
    """epsilon over what varies: certified upper bounds."""
    names = list(rows[0].values)
    check_names(names)
    figure = new_figure(7.2, 4.8, title=title)
    axes = figure.subplots()
    first = _distinct(row.values[names[0]] for row in rows)
    second = _distinct(row.values[names[1]] for row in rows) if len(names) == 2 else []
    uppers = {tuple(row.values.values()): _height(row.epsilon_upper) for row in rows}
    if len(second) > _MOST_CURVES and all(isinstance(value, int | float) for value in (*first, *second)):
        _heat_map(figure, axes, names, (first, second), uppers)
    else:
        _curves(axes, names, first, second, uppers)
    return figure


def _curves(axes: Any, names: list[str], first: list[Any], second: list[Any], uppers: dict[Any, float]) -> None:
    positive = [value for value in uppers.values() if 0.0 < value < math.inf]
    logarithmic = bool(positive) and max(positive) > 100.0 * min(positive)
    without: list[tuple[str, str, list[Any]]] = []
    for index, other in enumerate(second or [None]):
        values = [uppers[(value,) if other is None else (value, other)] for value in first]
        kinds = [_kind(value, logarithmic=logarithmic) for value in values]
        drawn = [math.nan if kind else value for value, kind in zip(values, kinds, strict=True)]
        shown = given(other) if isinstance(other, int | float) else str(other)
        label = None if other is None else f"{names[1].replace('_', ' ')} = {shown}"
        color = COLOURS[index % len(COLOURS)]
        style: dict[str, Any] = {"color": color, "linestyle": _LINES[index % len(_LINES)], "linewidth": 1.8}
        axes.plot(first, drawn, label=label, marker=".", markevery=_markers(drawn), **style)
        for name in _MARKS:
            places = [place for place, kind in zip(first, kinds, strict=True) if kind == name]
            without += [(name, color, places)] if places else []
    axes.set_xlabel(names[0].replace("_", " "))
    axes.set_ylabel("epsilon (certified upper bound)")
    axes.set_yscale("log" if logarithmic else "linear")
    axes.margins(x=0.03)
    if len(first) == 1 and isinstance(first[0], int | float):  # a single place has no width
        axes.set(xlim=(first[0] - max(1.0, abs(first[0])), first[0] + max(1.0, abs(first[0]))), xticks=first)
    _whole_ticks(axes.xaxis, first)
    _mark_edges(axes, without)
    if all(_kind(value, logarithmic=logarithmic) for value in uppers.values()):
        axes.set_yticks([])  # nothing has a height
    finish(axes, legend="best" if second or without else None)


def _whole_ticks(axis: Any, values: Sequence[Any]) -> None:
    """Ticks at integers only, where only integers can be meant."""
    if all(isinstance(value, int) for value in values):
        axis.get_major_locator().set_params(integer=True)


def _markers(drawn: list[float]) -> list[int]:
    """Which points are marked: all of a few, and of many those that no line reaches."""
    gaps = [True, *(math.isnan(value) for value in drawn), True]
    few = len(drawn) <= _MOST_MARKERS
    return [i for i in range(len(drawn)) if few or (gaps[i] and gaps[i + 2] and not gaps[i + 1])]


def _mark_edges(axes: Any, without: list[tuple[str, str, list[Any]]]) -> None:
    """Signs at the upper and the lower edge, a row for each curve, in the curve's colour; and what they mean."""
    rows = {"top": 0, "bottom": 0}
    total = {edge: sum(_MARKS[name][1] == edge for name, _, _ in without) for edge in rows}
    room = {edge: _ROW * (count + 0.5) if count else 0.0 for edge, count in total.items()}
    forward, back = (math.log, math.exp) if axes.get_yscale() == "log" else (float, float)
    low, high = (forward(limit) for limit in axes.get_ylim())
    share = (high - low) / (1.0 - room["top"] - room["bottom"])
    axes.set_ylim(back(low - share * room["bottom"]), back(high + share * room["top"]))
    signs = {"infinite": (infinity_sign(), 11), "epsilon = 0": ("v", 6), "refused": ("x", 6)}
    for name, color, places in without:
        edge = _MARKS[name][1]
        rows[edge] += 1
        marker, size = signs[name]
        height = 1.0 - _ROW * rows[edge] if edge == "top" else _ROW * (total[edge] + 1 - rows[edge])
        style: dict[str, Any] = {"linestyle": "none", "marker": marker, "markersize": size, "clip_on": False}
        transform = axes.get_xaxis_transform()
        axes.plot(_apart(places), [height] * len(_apart(places)), transform=transform, color=color, **style)
    for name in _MARKS:
        if any(one == name for one, _, _ in without):
            marker, size = signs[name]
            axes.plot([], [], linestyle="none", marker=marker, markersize=size, color="#444444", label=name)


def _apart(places: list[Any]) -> list[Any]:
    """Places spaced so that marks do not touch; all places that are not numbers, which are few."""
    if len(places) < _MOST_MARKERS or not all(isinstance(place, int | float) for place in places):
        return places
    ordered = sorted(places)
    kept = [ordered[0]]
    for place in ordered[1:]:
        if place - kept[-1] >= (ordered[-1] - ordered[0]) / _MOST_MARKERS:
            kept.append(place)
    return kept


def _heat_map(figure: Any, axes: Any, names: list[str], sides: Any, uppers: dict[Any, float]) -> None:
    import numpy as np

    first, second = sides
    values = np.array([[uppers[(x, y)] for x in first] for y in second])
    shown = np.ma.masked_invalid(np.where(values > 0.0, values, np.nan))
    if shown.count():
        _colour_finite(figure, axes, sides, shown)
    _colour_others(figure, axes, sides, values)
    axes.set_xlabel(names[0].replace("_", " "))
    axes.set_ylabel(names[1].replace("_", " "))
    for axis, side in ((axes.xaxis, first), (axes.yaxis, second)):
        _whole_ticks(axis, side)


def _colour_finite(figure: Any, axes: Any, sides: Any, shown: Any) -> None:
    """Colours for finite values above 0, a bar that explains them, and lines of equal epsilon."""
    import numpy as np

    first, second = sides
    mesh = axes.pcolormesh(first, second, np.log10(shown), shading="nearest", cmap="viridis", rasterized=True)
    bar = figure.colorbar(mesh, ax=axes)
    bar.set_label("epsilon (certified upper bound)")
    marks = [digit * 10.0**power for power in range(-6, 9) for digit in (1, 2, 5)]
    ticks = [mark for mark in marks if shown.min() <= mark <= shown.max()]
    if ticks:
        bar.set_ticks(np.log10(ticks), labels=[f"{mark:g}" for mark in ticks])
    levels = [level for level in (0.5, 1, 2, 4, 8, 16, 32, 64, 128) if shown.min() < level < shown.max()]
    if levels and len(first) > 1 and len(second) > 1:
        lines = axes.contour(first, second, shown, levels=levels, colors="white", linewidths=0.8)
        axes.clabel(lines, fmt="%g", fontsize=8)


def _colour_others(figure: Any, axes: Any, sides: Any, values: Any) -> None:
    """A colour for every kind of point that is not on the scale, and a legend."""
    import numpy as np
    from matplotlib.colors import ListedColormap
    from matplotlib.patches import Patch

    kinds = np.array([[_kind(value, logarithmic=True) for value in row] for row in values])
    handles = []
    for name, (color, _) in _MARKS.items():
        if (kinds == name).any():
            cells = np.ma.masked_where(kinds != name, np.zeros(kinds.shape))
            axes.pcolormesh(*sides, cells, shading="nearest", cmap=ListedColormap([color]), rasterized=True)
            handles.append(Patch(facecolor=color, edgecolor="#444444", label=name))
    if handles:
        figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False, fontsize=9)


def _distinct(values: Any) -> list[Any]:
    return list(dict.fromkeys(values))


def _height(value: float | None) -> float:
    """NaN where a point was refused."""
    return math.nan if value is None else value


def _kind(value: float, *, logarithmic: bool) -> str:
    """Which of `_MARKS` a point is; empty where it has a height."""
    if math.isnan(value):
        return "refused"
    if math.isinf(value):
        return "infinite"
    return "epsilon = 0" if logarithmic and value == 0.0 else ""
