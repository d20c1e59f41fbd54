"""Pictures. Here those of curves: epsilon against group size, steps and releases; trade-off curves; what an audit saw.

Every curve has its own line and marker, so that nothing depends on colour. Infinite values stand at the upper edge,
marked as such. matplotlib is imported only when a picture is drawn; what all pictures share is in drawing.py.

studies.py  people's epsilons, caps and plans; a sweep, as curves or as a heat map
paper.py    the paper's empirical section, computed and drawn
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from groupdp.baselines import Point
from groupdp.drawing import (
    AMBER,
    BLUE,
    GREY,
    GUIDE,
    ORANGE,
    PINK,
    SKY,
    finish,
    infinity_sign,
    new_figure,
    plain_logarithmic,
    powers_of_ten,
    spaced,
)
from groupdp.floats import FloatArray
from groupdp.neighbours import BACKWARD, DIRECTIONS
from groupdp.printing import given
from groupdp.sweeps.spend import Spending

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from groupdp.audit import ClaimedCurve, Scores, WorstCaseAudit
    from groupdp.ledger import Ledger, State
    from groupdp.tradeoff import TradeOffCurve


#: name, label, and how it is drawn; the most important last, on top.
_SERIES: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("linear", "k times one example (reference)", {"color": GREY, "linestyle": (0, (1, 1.5)), "linewidth": 1.4}),
    (
        "old_tool",
        "Vadhan's lemma, TensorFlow Privacy",
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
    ("epsilon", "this analysis", {"color": BLUE, "linestyle": "-", "linewidth": 2.2, "marker": "o", "markersize": 4.2}),
)


def draw_curves(panels: Sequence[tuple[str, Sequence[Point]]], *, title: str = "") -> Figure:
    """One panel for each (title, points), side by side, with one legend below."""
    width = 6.6 if len(panels) == 1 else 4.0 * len(panels)
    figure = new_figure(width, 4.4, title=title)
    axes = figure.subplots(1, len(panels), squeeze=False)[0]
    for axis, (name, points) in zip(axes, panels, strict=True):
        _draw_panel(axis, name, points)
    axes[0].set_ylabel("ε (log scale)")
    handles, labels = axes[0].get_legend_handles_labels()
    if any(math.isinf(_value(point, series)) for _, points in panels for point in points for series in _NAMES):
        from matplotlib.lines import Line2D

        handles.insert(0, Line2D([], [], linestyle="none", marker=infinity_sign(), markersize=10, color="#444444"))
        labels.insert(0, "infinite")
    columns = 2 if len(panels) == 1 else 3
    figure.legend(handles[::-1], labels[::-1], loc="outside lower center", ncols=columns, frameon=False, fontsize=9)
    return figure


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
    axis.set_title(title, fontsize=10.5)
    axis.set_xlabel("group size k")
    finish(axis)
    axis.minorticks_off()  # the powers of ten, or 1, 2 and 5 times them, are labelled
    axis.margins(x=0.03)
    if len(sizes) == 1:
        axis.set_xticks(sizes)
    elif sizes[0] == 1 and sizes[-1] <= 40:
        axis.set_xticks([1, *range(8, sizes[-1] + 1, 8)] if sizes[-1] >= 24 else [1, *range(4, sizes[-1] + 1, 4)])


def _draw_intervals(axis: Axes, points: Sequence[Point], color: str) -> None:
    """A bar wherever the lemma's value is only known to lie in a visible interval."""
    for point in points:
        if point.vadhan is not None and point.vadhan.lower < 0.99 * point.vadhan.upper:
            top = min(point.vadhan.upper, axis.get_ylim()[1])
            axis.plot([point.group_size] * 2, [max(point.vadhan.lower, axis.get_ylim()[0]), top], color=color)


def _has_lone_point(drawn: Sequence[float]) -> bool:
    """Whether a value has no neighbour on either side to draw a line to."""
    gaps = [True, *map(math.isnan, drawn), True]
    return any(before and after and not gap for before, gap, after in zip(gaps, gaps[1:], gaps[2:], strict=False))


def _mark_infinite(axis: Axes, sizes: Sequence[int], color: str, *, named: bool) -> None:
    """Infinity signs just below the upper edge, in the curve's colour, spaced so that they do not touch."""
    kept = spaced(sizes, max((sizes[-1] - sizes[0]) / 9, 1))
    across = axis.get_xaxis_transform()
    sign: dict[str, Any] = {"linestyle": "none", "marker": infinity_sign(), "markersize": 11, "clip_on": False}
    axis.plot(kept, [0.955] * len(kept), transform=across, color=color, **sign)
    if named:  # there is room to the left
        beside: dict[str, Any] = {"xytext": (-8, 0), "textcoords": "offset points", "ha": "right", "va": "center"}
        text = f"from k = {sizes[0]}"
        axis.annotate(text, (sizes[0], 0.955), xycoords=across, fontsize=8.5, color="#333333", **beside)


def _value(point: Point, name: str) -> float:
    """The values drawn: the guaranteed side of every interval; NaN where there is none."""
    value = getattr(point, name)
    if value is None:
        return math.nan
    return float(value) if isinstance(value, float) else float(value.upper)


def draw_spending(spending: Spending, *, title: str) -> Figure:
    """epsilon (certified upper bounds) after each step drawn, with the target and where it is reached."""
    figure = new_figure(7.2, 4.6, title=title)
    axes = figure.subplots()
    steps = [0, *(point.steps for point in spending.points)]
    values = [0.0, *(point.epsilon.upper for point in spending.points)]
    axes.plot(steps, values, color=BLUE, linewidth=1.8, label="spent so far (certified upper bound)")
    ends = [point for point in spending.points if point.epoch]
    if ends:
        spots = ([end.steps for end in ends], [end.epsilon.upper for end in ends])
        axes.plot(*spots, ".", color=BLUE, markersize=7, label="at the end of each epoch")
    if spending.target is not None:
        axes.axhline(spending.target, color=ORANGE, linestyle="--", label=f"target: epsilon = {given(spending.target)}")
        if spending.last_step_within is not None and spending.last_step_within < spending.points[-1].steps:
            label = f"last step within it: {spending.last_step_within}"
            axes.axvline(spending.last_step_within, linestyle=":", label=label, **GUIDE)
    axes.set(xlabel="steps", ylabel="epsilon")
    axes.set_ylim(bottom=0.0)
    axes.margins(x=0.02)
    finish(axes, legend="lower right")
    return figure


def rates_to_draw() -> npt.NDArray[np.float64]:
    """False positive rates close enough together that the curve has no visible corners."""
    bend = np.geomspace(0.002, 0.3, 44)
    return np.concatenate([np.geomspace(1e-12, 0.002, 24)[:-1], bend, np.linspace(0.3, 1.0 - 1e-12, 16)[1:]])


def draw_trade_off(curve: TradeOffCurve, *, title: str) -> Figure:
    """The certified curve on linear axes, and its tail on logarithmic ones."""
    figure = new_figure(9.0, 4.4, title=f"Telling two neighbouring datasets apart (certified)\n{title}")
    left, right = figure.subplots(1, 2)
    rate = curve.false_positive_rate
    missed, detected = "missed by the best attack, at least", "detected by the best attack, at most"
    left.plot([0.0, *rate], [1.0, *curve.false_negative_rate_lower], color=BLUE, linewidth=1.8, label=missed)
    left.plot([0, 1], [1, 0], "--", label="guessing", **GUIDE)
    left.set(xlabel="false positive rate", ylabel="false negative rate", xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
    finish(left, legend="upper right")
    tail = (rate > 0) & (rate <= 0.5)
    right.loglog(rate[tail], curve.true_positive_rate_upper[tail], color=BLUE, linewidth=1.8, label=detected)
    right.loglog(rate[tail], rate[tail], "--", label="guessing", **GUIDE)
    right.set(xlabel="false positive rate", ylabel="true positive rate")
    finish(right, legend="lower right")
    for axis in (right.xaxis, right.yaxis):
        powers_of_ten(axis)
    return figure


def draw_ledger(book: Ledger, states: Sequence[State], *, title: str) -> Figure:
    """Every entry alone as a bar, and both figures so far as steps; certified upper bounds."""
    figure = new_figure(7.2, 4.6, title=title)
    axes = figure.subplots()
    places = list(range(1, len(states) + 1))
    axes.bar(places, [_finite(state.alone.upper) for state in states], color=SKY, width=0.55, label="alone")
    for name, style, colour, values in (
        ("filter: chosen after looking", "s--", ORANGE, [state.filtered.upper for state in states]),
        ("composed: fixed beforehand", "o-", BLUE, [state.composed.upper for state in states]),
    ):
        axes.plot(places, [_finite(value) for value in values], style, color=colour, label=name)
    if book.epsilon is not None:
        axes.axhline(book.epsilon, linestyle="--", label=f"budget: epsilon = {given(book.epsilon)}", **GUIDE)
    axes.set_xticks(places, [textwrap.fill(entry.title, 16) for entry in book.entries], fontsize=8)
    axes.set(ylabel="epsilon")
    axes.set_ylim(bottom=0.0)
    finish(axes, legend="lower right")
    return figure


def _finite(value: float) -> float:
    """An infinite epsilon is not drawn."""
    return value if math.isfinite(value) else math.nan


_COLOURS = dict(zip(DIRECTIONS, (BLUE, ORANGE), strict=True))


def draw_audit(audit: WorstCaseAudit, *, title: str = "") -> Figure:
    """The certified curve beside what was measured, and the attack's trade-off curve; `title` names the run."""
    about = (
        f"The worst case trained and attacked: {len(audit.scores.with_group)} runs of each kind, "
        f"confidence {given(audit.report.confidence)}"
    )
    figure = new_figure(10.0, 5.2, title=f"{about}\n{title}".strip())
    left, right = figure.subplots(1, 2)
    draw_delta(left, audit)
    draw_tradeoff(right, audit.scores, audit.claim, confidence=audit.report.confidence)
    return figure


def draw_scores(scores: Scores, claim: ClaimedCurve, *, confidence: float, title: str = "") -> Figure:
    """Draw the trade-off curve of measured scores, its confidence band, and the lower bound that the claim implies."""
    runs = f"{len(scores.with_group)} runs with the group, {len(scores.without_group)} without"
    figure = new_figure(5.5, 4.5, title=f"{runs}, confidence {given(confidence)}\n{title}".strip())
    draw_tradeoff(figure.subplots(), scores, claim, confidence=confidence)
    return figure


def draw_delta(axes: Any, audit: WorstCaseAudit) -> None:
    """delta over epsilon: certified lines, and what was measured; open circles where the interval reaches 0."""
    floor = 0.1 / min(measured.trials for measured in audit.measured)
    reaching, open_circle = False, {"markerfacecolor": "white", "markersize": 4}
    for measured in audit.measured:
        colour = _COLOURS[measured.direction]
        certified = audit.claim.deltas[measured.direction]
        drawn = certified > 0.0
        axes.plot(measured.epsilons[drawn], certified[drawn], color=colour, label=f"certified, {measured.direction}")
        # Both directions next to each other.
        shift = 0.2 / len(measured.epsilons) * measured.epsilons[-1] * (1 if measured.direction == BACKWARD else -1)
        at = np.maximum(measured.epsilons + shift, 0.0)
        seen = measured.upper > floor
        low, high = np.maximum(measured.lower[seen], floor), measured.upper[seen]
        axes.vlines(at[seen], low, high, color=colour, linewidth=2, alpha=0.4, label=f"interval, {measured.direction}")
        seen_above = measured.lower > 0.0
        label = f"measured, {measured.direction}"
        axes.plot(at[seen_above], measured.estimate[seen_above], ".", color=colour, label=label)
        height = np.maximum(measured.estimate[~seen_above], floor)  # on the lower edge, if not above it
        axes.plot(at[~seen_above], height, "o", color=colour, clip_on=False, zorder=3, **open_circle)
        reaching |= not bool(np.all(seen_above))
    if reaching:
        axes.plot([], [], "o", color=GREY, label="measured, interval reaches 0", **open_circle)
    axes.set(yscale="log", xlabel="epsilon", ylabel="delta", ylim=(floor, 1.0))
    finish(axes)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.13), ncols=2, frameon=False, fontsize=8.5)


def draw_tradeoff(axes: Any, scores: Scores, claim: ClaimedCurve, *, confidence: float) -> None:
    """False alarms against misses: the attack's curve with its band, and the certified floor."""
    from groupdp.audit import empirical_tradeoff

    alphas = np.linspace(0.0, 1.0, 401)
    for direction in claim.deltas:
        colour = _COLOURS[direction]
        curve = empirical_tradeoff(scores, direction=direction, confidence=confidence)
        # For every threshold the truth is in a rectangle: join their lower left and their upper right corners.
        lower = np.interp(alphas, curve.false_alarm_lower[::-1], curve.miss_lower[::-1])
        upper = np.interp(alphas, curve.false_alarm_upper[::-1], curve.miss_upper[::-1])
        axes.fill_between(alphas, lower, upper, color=colour, alpha=0.25, linewidth=0, label=f"band, {direction}")
        floor = claimed_tradeoff(claim, direction, alphas)
        axes.plot(alphas, floor, "--", color=colour, linewidth=1, label=f"certified floor, {direction}")
        axes.plot(curve.false_alarm_rate, curve.miss_rate, color=colour, linewidth=1, label=f"attack, {direction}")
    axes.plot([0.0, 1.0], [1.0, 0.0], "--", label="guessing", **GUIDE)
    axes.set(xlabel="false alarm rate", ylabel="miss rate", xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
    finish(axes, legend="upper right")


def claimed_tradeoff(claim: ClaimedCurve, direction: str, false_alarm_rates: FloatArray) -> FloatArray:
    """The miss rate below which the claim lets no test of this direction go, at every false alarm rate.

    With P the law that is to be detected and Q the other one, for every epsilon of the table:

        miss >= 1 - delta(epsilon) - e^epsilon false_alarm                       P(E) <= e^epsilon Q(E) + delta
        miss >= e^-epsilon (1 - delta'(epsilon) - false_alarm)           the other direction, complement of E
    """
    factor = np.exp(claim.epsilons)[:, None]
    floor = np.zeros(len(false_alarm_rates))
    for other, deltas in claim.deltas.items():
        certain = 1.0 - deltas[:, None]
        straight = other == direction
        lines = certain - factor * false_alarm_rates if straight else (certain - false_alarm_rates) / factor
        floor = np.maximum(floor, lines.max(axis=0))
    return floor
