"""The picture of an audit: the certified curve and what was measured, and the attack's trade-off curve."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from groupdp.audit import empirical_tradeoff
from groupdp.drawing import BLUE, GREY, GUIDE, ORANGE, finish, new_figure
from groupdp.floats import FloatArray
from groupdp.neighbours import BACKWARD, DIRECTIONS
from groupdp.printing import given

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from groupdp.audit import ClaimedCurve, Scores, WorstCaseAudit


_COLOURS = dict(zip(DIRECTIONS, (BLUE, ORANGE), strict=True))


def draw_audit(audit: WorstCaseAudit, *, title: str = "") -> Figure:
    """The certified curve beside what was measured, and the attack's trade-off curve; `title` names the run."""
    figure = new_figure(10.0, 5.2, title=f"{_title(audit)}\n{title}".strip())
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
    floor = 0.1 / min(one.trials for one in audit.measured)
    reaching = False
    for one in audit.measured:
        colour = _COLOURS[one.direction]
        certified = audit.claim.deltas[one.direction]
        drawn = certified > 0.0
        axes.plot(one.epsilons[drawn], certified[drawn], color=colour, label=f"certified, {one.direction}")
        # Both directions next to each other.
        shift = 0.2 / len(one.epsilons) * one.epsilons[-1] * (1 if one.direction == BACKWARD else -1)
        at = np.maximum(one.epsilons + shift, 0.0)
        seen = one.upper > floor
        low, high = np.maximum(one.lower[seen], floor), one.upper[seen]
        axes.vlines(at[seen], low, high, color=colour, linewidth=2, alpha=0.4, label=f"interval, {one.direction}")
        seen_above = one.lower > 0.0
        axes.plot(at[seen_above], one.estimate[seen_above], ".", color=colour, label=f"measured, {one.direction}")
        height = np.maximum(one.estimate[~seen_above], floor)  # on the lower edge, if not above it
        axes.plot(
            at[~seen_above], height, "o", color=colour, markerfacecolor="white", markersize=4, clip_on=False, zorder=3
        )
        reaching |= not bool(np.all(seen_above))
    if reaching:
        axes.plot([], [], "o", color=GREY, markerfacecolor="white", markersize=4, label="measured, interval reaches 0")
    axes.set(yscale="log", xlabel="epsilon", ylabel="delta", ylim=(floor, 1.0))
    finish(axes)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.13), ncols=2, frameon=False, fontsize=8.5)


def draw_tradeoff(axes: Any, scores: Scores, claim: ClaimedCurve, *, confidence: float) -> None:
    """False alarms against misses: the attack's curve with its band, and the certified floor."""
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


def _title(audit: WorstCaseAudit) -> str:
    return (
        f"The worst case trained and attacked: {len(audit.scores.with_group)} runs of each kind, "
        f"confidence {given(audit.report.confidence)}"
    )
