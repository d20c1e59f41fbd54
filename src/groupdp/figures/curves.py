"""Pictures of epsilon against group size. matplotlib is imported only when one is drawn.

Colours are from the palette of Okabe and Ito, and every curve has its own line and marker as well, so that nothing
depends on colour. Infinite values stand at the upper edge, marked as such.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from groupdp.baselines.comparison import Point
from groupdp.drawing import AMBER, BLUE, GREY, ORANGE, PINK, finish, new_figure, plain_logarithmic
from groupdp.errors import InvalidArgument
from groupdp.figures.layout import infinity_sign, place, powers_of_ten

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SUFFIXES = (".png", ".pdf", ".svg")

#: name, label, and how it is drawn; the most important last, on top.
_SERIES: tuple[tuple[str, str, dict[str, Any]], ...] = (
    (
        "linear",
        "k times one example (reference)",
        {"color": GREY, "linestyle": (0, (1, 1.5)), "linewidth": 1.4},
    ),
    (
        "old_tool",
        "Vadhan's lemma, old tool (Rényi, doubles)",
        {"color": PINK, "linestyle": (0, (4, 1.5, 1, 1.5)), "linewidth": 1.3, "marker": "^", "markersize": 4.5},
    ),
    (
        "vadhan",
        "Vadhan's lemma, geometric form, exact curve",
        {"color": ORANGE, "linestyle": (0, (5, 2)), "linewidth": 1.5, "marker": "s", "markersize": 3.8},
    ),
    (
        "poisson_claim",
        "Poisson accounting: not a guarantee here",
        {"color": AMBER, "linestyle": (0, (2, 2)), "linewidth": 1.4, "marker": "x", "markersize": 4.5},
    ),
    (
        "epsilon",
        "this analysis",
        {"color": BLUE, "linestyle": "-", "linewidth": 2.2, "marker": "o", "markersize": 4.2},
    ),
)


def check_picture_name(name: str, path: str | Path) -> None:
    """Refuse a suffix that does not name a known kind of picture."""
    if Path(path).suffix.lower() not in SUFFIXES:
        raise InvalidArgument(name, str(path), f"end in {', '.join(SUFFIXES)}")


def draw_curves(panels: Sequence[tuple[str, Sequence[Point]]], *, title: str = "") -> Figure:
    """One panel for each (title, points), side by side, with one legend below."""
    width = 6.6 if len(panels) == 1 else 4.0 * len(panels)
    figure = new_figure(width, 4.4, layout=None)
    axes = figure.subplots(1, len(panels), squeeze=False)[0]
    for axis, (name, points) in zip(axes, panels, strict=True):
        _draw_panel(axis, name, points)
    axes[0].set_ylabel("ε (log scale)")
    handles, labels = axes[0].get_legend_handles_labels()
    if any(math.isinf(_value(point, series)) for _, points in panels for point in points for series in _NAMES):
        handles.insert(0, _infinity_handle())
        labels.insert(0, "infinite")
    columns = 2 if len(panels) == 1 else 3
    figure.legend(handles[::-1], labels[::-1], loc="lower center", ncols=columns, frameon=False, fontsize=9)
    headings = any(name for name, _ in panels)
    place(figure, axes, title=title, headings=headings, legend_rows=math.ceil(len(handles) / columns))
    return figure


def save_figure(figure: Figure, path: str | Path) -> None:
    """Write a picture; the kind is its suffix's. Text in PDF and SVG stays text."""
    import matplotlib

    suffix = Path(path).suffix.lower()
    # Without dates and random identifiers the same data give the same file.
    metadata = {".pdf": {"CreationDate": None}, ".svg": {"Date": None}}.get(suffix, {})
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "groupdp", "pdf.fonttype": 42}):
        # A picture of few colours is hardly smaller at the usual sixth level, which takes three times as long.
        options: dict[str, Any] = {"pil_kwargs": {"compress_level": 3}} if suffix == ".png" else {}
        figure.savefig(path, format=suffix[1:], dpi=160, metadata=metadata, **options)


_NAMES = tuple(name for name, _, _ in _SERIES)


def _draw_panel(axis: Axes, title: str, points: Sequence[Point]) -> None:
    sizes = [point.group_size for point in points]
    values = [value for point in points for name in _NAMES if 0.0 < (value := _value(point, name)) < math.inf]
    low, high = (min(values), max(values)) if values else (0.1, 10.0)
    # Room above the finite values for the infinite ones, on the panel's own edge.
    axis.set_yscale("log")
    axis.set_ylim(low / 1.5, high * (high / low) ** 0.12 * 1.3)
    for name, label, style in _SERIES:
        curve = [_value(point, name) for point in points]
        if all(math.isnan(value) for value in curve):  # no such analysis of this run
            continue
        if name == "epsilon":
            label += " (tight)" if all(point.epsilon.tight for point in points) else " (valid, not tight)"
        drawn = [value if 0.0 < value < math.inf else math.nan for value in curve]
        if len(points) > 48:
            style = {**style, "marker": None}
        if _has_lone_point(drawn):  # which a line alone would not show
            style = {"marker": "D", "markersize": 3.5, **{key: value for key, value in style.items() if value}}
        axis.plot(sizes, drawn, label=label, **style)
        if name == "vadhan":
            _draw_intervals(axis, points, style["color"])
        infinite = [size for size, value in zip(sizes, curve, strict=True) if value == math.inf]
        if infinite:
            _mark_infinite(axis, infinite, style["color"], named=infinite[0] - sizes[0] > 0.2 * (sizes[-1] - sizes[0]))
    if high < 300.0 * low:  # few powers of ten to label
        plain_logarithmic(axis.yaxis)
    else:
        powers_of_ten(axis.yaxis)
    axis.set_title(title, fontsize=10.5, y=1.0)  # a place of its own: none is looked for above the numbers
    axis.set_xlabel("group size k")
    finish(axis)
    axis.minorticks_off()  # the powers of ten, or 1, 2 and 5 times them, are labelled
    axis.margins(x=0.03)
    if len(sizes) == 1:
        axis.set_xticks(sizes)
    elif sizes[0] == 1 and sizes[-1] <= 40:
        axis.set_xticks([1, *range(8, sizes[-1] + 1, 8)] if sizes[-1] >= 24 else [1, *range(4, sizes[-1] + 1, 4)])


def _draw_intervals(axis: Axes, points: Sequence[Point], color: str) -> None:
    """A bar wherever what the lemma gives is only known to lie in an interval that can be seen."""
    for point in points:
        if point.vadhan is not None and point.vadhan.lower < 0.99 * point.vadhan.upper:
            top = min(point.vadhan.upper, axis.get_ylim()[1])
            axis.plot([point.group_size] * 2, [max(point.vadhan.lower, axis.get_ylim()[0]), top], color=color)


def _has_lone_point(drawn: Sequence[float]) -> bool:
    """Whether a value has none to either side that a line could be drawn to."""
    gaps = [True, *map(math.isnan, drawn), True]
    return any(before and after and not gap for before, gap, after in zip(gaps, gaps[1:], gaps[2:], strict=False))


def _mark_infinite(axis: Axes, sizes: Sequence[int], color: str, *, named: bool) -> None:
    """Infinity signs just below the upper edge, in the curve's colour; not so many that they touch."""
    apart = (sizes[-1] - sizes[0]) / 9
    kept = [sizes[0]]
    for size in sizes[1:]:
        if size - kept[-1] >= max(apart, 1):
            kept.append(size)
    axis.plot(
        kept,
        [0.955] * len(kept),
        transform=axis.get_xaxis_transform(),
        linestyle="none",
        marker=infinity_sign(),
        markersize=11,
        color=color,
        clip_on=False,
    )
    if not named:  # no room to the left
        return
    axis.annotate(
        f"from k = {sizes[0]}",
        (sizes[0], 0.955),
        xycoords=axis.get_xaxis_transform(),
        xytext=(-8, 0),
        textcoords="offset points",
        ha="right",
        va="center",
        fontsize=8.5,
        color="#333333",
    )


def _infinity_handle() -> Any:
    from matplotlib.lines import Line2D

    return Line2D([], [], linestyle="none", marker=infinity_sign(), markersize=10, color="#444444")


def _value(point: Point, name: str) -> float:
    """What is drawn: the guarantee's side of every interval; NaN where there is none."""
    value = getattr(point, name)
    if value is None:
        return math.nan
    return float(value) if isinstance(value, float) else float(value.upper)
