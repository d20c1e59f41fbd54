"""Pictures of studies: people's epsilons, caps on their examples, plans, and sweeps.

Of a sweep, curves for one varying name (or a second with few values), a heat map for two. Every point is shown: those
without a height (infinite, zero on a logarithmic axis, refused) are marked.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from groupdp.drawing import (
    BLUE,
    COLOURS,
    GREY,
    GUIDE,
    ORANGE,
    finish,
    infinity_sign,
    new_figure,
    plain_logarithmic,
    spaced,
)
from groupdp.errors import InvalidArgument
from groupdp.printing import counted, given, given_percent, lower_percent
from groupdp.sweeps import Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from groupdp.people import PeopleView
    from groupdp.people.cap import CapStudy
    from groupdp.people.plan import Plan


#: The least distance between caps whose numbers are written, as a share of the axis.
_APART = 0.06


def draw_people(view: PeopleView, *, title: str, thresholds: Sequence[float] = ()) -> Figure:
    """The share of people with a certified epsilon of at most x, from 0 up; how many are below each threshold."""
    note = f"{counted(view.total)} people"
    if view.unprotected:
        note += f", {counted(view.unprotected)} of them with too many examples for any epsilon"
    figure = new_figure(7.2, 4.6, title=f"{title}\n{note}")
    axes = figure.subplots()
    pairs = [(b.upper, n) for b, n in zip(view.epsilon, view.people, strict=True) if b.upper < float("inf")]
    covered, xs, ys = 0, [], []
    for upper, n in pairs:
        covered += n
        xs.append(upper)
        ys.append(100.0 * covered / view.total)
    logarithmic = bool(xs) and min(xs) > 0.0
    marked = [threshold for threshold in thresholds if threshold > 0.0 or not logarithmic]
    edges = [*xs, *marked] or [1.0]
    if logarithmic:
        first, last = min(edges) / 1.5, max(edges) * 1.5
        axes.set_xscale("log")
        if last < 300.0 * first:
            plain_logarithmic(axes.xaxis)
        else:
            axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    else:
        first, last = 0.0, 1.05 * max(edges)
    # Nobody has less than the smallest epsilon; beyond the largest nothing is added.
    shares = [0.0, *ys, ys[-1] if ys else 0.0]
    label = "people with at most that epsilon"
    axes.step([first, *xs, last], shares, where="post", color=BLUE, linewidth=1.8, label=label)
    for index, threshold in enumerate(marked):
        axes.axvline(threshold, linestyle=":", label="thresholds" if index == 0 else None, **GUIDE)
        share = view.protected(threshold) / view.total
        style: dict[str, Any] = {"rotation": 90, "fontsize": 8, "ha": "right", "va": "bottom", "color": GREY}
        text = f" {given(threshold)}: {lower_percent(share)}"
        axes.annotate(text, (threshold, 0.02), xycoords=axes.get_xaxis_transform(), **style)
    axes.set_xlim(first, last)
    axes.set_ylim(0, 103)
    axes.set_xlabel(f"epsilon at delta = {given(view.delta)} (certified upper bound)")
    axes.set_ylabel("share of the people, per cent")
    finish(axes, legend="lower right")
    return figure


def draw_caps(study: CapStudy, *, title: str) -> Figure:
    """The frontier: noise per averaged gradient against the share of examples kept, both ways of sampling."""
    figure = new_figure(7.2, 4.8, title=title)
    axes = figure.subplots()
    _frontier(axes, study, BLUE, lambda row: row.noise_per_average, "sampling examples, in units of C_example")
    _frontier(axes, study, ORANGE, lambda row: row.person_noise_per_average, "sampling people, in units of C_user")
    if study.recommended is not None:
        best = study.row(study.recommended)
        spot = ([100.0 * best.share_kept], [best.noise_per_average])
        label = f"recommended: at most {best.cap} examples of a person"
        axes.semilogy(*spot, "o", markersize=11, fillstyle="none", color=BLUE, linestyle="none", label=label)
    if study.minimum_share:
        axes.semilogy([], [], "x", color=GREY, linestyle="none", label="keeps too few examples")
        label = f"{given_percent(study.minimum_share)} of the examples must be kept"
        axes.axvline(100.0 * study.minimum_share, linestyle=":", label=label, **GUIDE)
        least = min(100.0 * row.share_kept for row in study.rows)
        axes.axvspan(least - 100.0, 100.0 * study.minimum_share, color="#eeeeee", zorder=0)
    shares = [100.0 * row.share_kept for row in study.rows]
    room = 0.05 * max(max(shares) - min(shares), 1.0)
    axes.set_xlim(min(shares) - room, max(shares) + room)
    axes.set(xlabel="examples kept, per cent (small numbers: the cap)", ylabel="noise per averaged gradient")
    noises = [noise for row in study.rows for noise in (row.noise_per_average, row.person_noise_per_average)]
    if max(noises) < 300.0 * min(noises):
        plain_logarithmic(axes.yaxis)
    finish(axes, legend="best")
    return figure


def draw_plan(plan: Plan, *, title: str) -> Figure:
    """Signal-to-noise ratio against the examples of a person that are used, a line for each way of sampling."""
    figure = new_figure(7.2, 4.8, title=title)
    axes = figure.subplots()
    for way, colour in zip(dict.fromkeys(row.way for row in plan.rows), COLOURS, strict=False):
        rows = sorted((row for row in plan.rows if row.way == way), key=lambda row: row.cap)
        axes.loglog([row.cap for row in rows], [row.signal_to_noise for row in rows], "-", color=colour, label=way)
        for allowed, marker in ((True, "."), (False, "x")):
            spots = [row for row in rows if row.allowed is allowed]
            ratios = [row.signal_to_noise for row in spots]
            axes.loglog([row.cap for row in spots], ratios, marker, color=colour, markersize=7)
    best = plan.recommended
    label = f"recommended: {best.way} at {best.cap}"
    circle: dict[str, Any] = {"markersize": 12, "fillstyle": "none", "color": GREY, "linestyle": "none"}
    axes.loglog([best.cap], [best.signal_to_noise], "o", label=label, **circle)
    if not all(row.allowed for row in plan.rows):
        axes.loglog([], [], "x", color=GREY, linestyle="none", label="uses too few examples")
    caps = sorted({row.cap for row in plan.rows})
    axes.set_xticks(caps, [str(cap) for cap in caps])
    axes.xaxis.minorticks_off()
    ratios = [row.signal_to_noise for row in plan.rows]
    if max(ratios) < 300.0 * min(ratios):
        plain_logarithmic(axes.yaxis)
    axes.set_xlabel("examples of a person: kept, or given to a step")
    axes.set_ylabel(f"signal-to-noise (cosine within a person {given(plan.alike)})")
    finish(axes, legend="best")
    return figure


def _frontier(axes: Any, study: CapStudy, colour: str, noise: Any, label: str) -> None:
    """One line over all caps; a dot where a cap is allowed, a cross where it keeps too few examples."""
    shares = [100.0 * row.share_kept for row in study.rows]
    values = [noise(row) for row in study.rows]
    axes.semilogy(shares, values, "-", color=colour, linewidth=1.6, label=label)
    for allowed, marker in ((True, "."), (False, "x")):
        spots = [i for i, row in enumerate(study.rows) if row.allowed is allowed]
        axes.semilogy([shares[i] for i in spots], [values[i] for i in spots], marker, color=colour, markersize=6)
    if colour != BLUE:
        return
    apart = _APART * (shares[-1] - shares[0])
    last = math.inf
    for place, row in enumerate(study.rows):
        near = abs(shares[place] - last) < apart or shares[-1] - shares[place] < apart
        if place in (0, len(study.rows) - 1) or row.cap == study.recommended or not near:
            last = shares[place]
            spot, right_below = (shares[place], values[place]), (3, -10)  # of a line that rises
            axes.annotate(str(row.cap), spot, right_below, textcoords="offset points", fontsize=8, ha="left")


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
    """Refuse more varying names than a picture can show."""
    if len(names) > 2:
        raise InvalidArgument("plot", len(names), "be of one or two varying names", f"{', '.join(names)}")


def draw_sweep(rows: Sequence[Row], *, title: str) -> Figure:
    """epsilon over what varies: certified upper bounds."""
    names = list(rows[0].values)
    check_names(names)
    figure = new_figure(7.2, 4.8, title=title)
    axes = figure.subplots()
    first, second = [list(dict.fromkeys(row.values[name] for row in rows)) for name in names] + [[]] * (2 - len(names))
    # A point that was refused has no height.
    uppers = {tuple(row.values.values()): math.nan if row.epsilon_upper is None else row.epsilon_upper for row in rows}
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
    """Ticks at integers only, for values that are integers."""
    if all(isinstance(value, int) for value in values):
        axis.get_major_locator().set_params(integer=True)


def _markers(drawn: list[float]) -> list[int]:
    """Which points are marked: all if there are few, else those that no line reaches."""
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
        if any(kind == name for kind, _, _ in without):
            marker, size = signs[name]
            axes.plot([], [], linestyle="none", marker=marker, markersize=size, color="#444444", label=name)


def _apart(places: list[Any]) -> list[Any]:
    """Places spaced so that marks do not touch; all places that are not numbers, which are few."""
    if len(places) < _MOST_MARKERS or not all(isinstance(place, int | float) for place in places):
        return places
    ordered = sorted(places)
    return spaced(ordered, (ordered[-1] - ordered[0]) / _MOST_MARKERS)


def _heat_map(figure: Any, axes: Any, names: list[str], sides: Any, uppers: dict[Any, float]) -> None:
    """A colour for every finite value above 0, with lines of equal epsilon; others have a colour for their kind."""
    import numpy as np
    from matplotlib.colors import ListedColormap
    from matplotlib.patches import Patch

    first, second = sides
    values = np.array([[uppers[(x, y)] for x in first] for y in second])
    kinds = np.array([[_kind(value, logarithmic=True) for value in row] for row in values])
    shown = np.ma.masked_where(kinds != "", values)
    if shown.count():
        mesh = axes.pcolormesh(first, second, np.ma.log10(shown), shading="nearest", cmap="viridis", rasterized=True)
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
    handles = []
    for name, (color, _) in _MARKS.items():
        if (kinds == name).any():
            cells = np.ma.masked_where(kinds != name, np.zeros(kinds.shape))
            axes.pcolormesh(first, second, cells, shading="nearest", cmap=ListedColormap([color]), rasterized=True)
            handles.append(Patch(facecolor=color, edgecolor="#444444", label=name))
    if handles:
        figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False, fontsize=9)
    for name, axis, side in ((names[0], axes.xaxis, first), (names[1], axes.yaxis, second)):
        axis.set_label_text(name.replace("_", " "))
        _whole_ticks(axis, side)


def _kind(value: float, *, logarithmic: bool) -> str:
    """Which of `_MARKS` a point gets; empty if it has a height."""
    if math.isnan(value):
        return "refused"
    if math.isinf(value):
        return "infinite"
    return "epsilon = 0" if logarithmic and value == 0.0 else ""
