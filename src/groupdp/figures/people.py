"""Pictures of people's epsilons, and of caps on their examples."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from groupdp.drawing import BLUE, COLOURS, GREY, GUIDE, ORANGE, finish, new_figure, plain_logarithmic
from groupdp.printing import counted, given, given_percent, lower_percent

#: The least distance between caps whose numbers are written, as a share of the axis.
_APART = 0.06

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from groupdp.people.cap import CapStudy
    from groupdp.people.plan import Plan
    from groupdp.people.view import PeopleView


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
    axes.step(
        [first, *xs, last], [0.0, *ys, ys[-1] if ys else 0.0], where="post", color=BLUE, linewidth=1.8,
        label="people with at most that epsilon",
    )  # fmt: skip
    for index, one in enumerate(marked):
        axes.axvline(one, linestyle=":", label="thresholds" if index == 0 else None, **GUIDE)
        share = view.protected(one) / view.total
        axes.annotate(
            f" {given(one)}: {lower_percent(share)}", (one, 0.02), xycoords=axes.get_xaxis_transform(), rotation=90,
            fontsize=8, ha="right", va="bottom", color=GREY,
        )  # fmt: skip
    axes.set_xlim(first, last)
    axes.set_ylim(0, 103)
    axes.set(
        xlabel=f"epsilon at delta = {given(view.delta)} (certified upper bound)", ylabel="share of the people, per cent"
    )
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
        axes.axvspan(min(100.0 * row.share_kept for row in study.rows) - 100.0, 100.0 * study.minimum_share,
                     color="#eeeeee", zorder=0)  # fmt: skip
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
    axes.loglog([best.cap], [best.signal_to_noise], "o", markersize=12, fillstyle="none", color=GREY, label=label,
                linestyle="none")  # fmt: skip
    if not all(row.allowed for row in plan.rows):
        axes.loglog([], [], "x", color=GREY, linestyle="none", label="uses too few examples")
    caps = sorted({row.cap for row in plan.rows})
    axes.set_xticks(caps, [str(cap) for cap in caps])
    axes.xaxis.minorticks_off()
    ratios = [row.signal_to_noise for row in plan.rows]
    if max(ratios) < 300.0 * min(ratios):
        plain_logarithmic(axes.yaxis)
    axes.set(
        xlabel="examples of a person: kept, or given to a step",
        ylabel=f"signal-to-noise (cosine within a person {given(plan.alike)})",
    )
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
            axes.annotate(
                str(row.cap),
                (shares[place], values[place]),
                (3, -10),  # to the right of and below a line that rises
                textcoords="offset points",
                fontsize=8,
                ha="left",
            )
