"""The picture of an audit: the certified curve and what was measured, and the attack's trade-off curve."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from groupdp.audit import empirical_tradeoff
from groupdp.errors import InvalidArgument

if TYPE_CHECKING:
    from groupdp.audit import ClaimedCurve, Scores, WorstCaseAudit

FloatArray = npt.NDArray[np.float64]

_COLOURS = {"remove": "#0b6e99", "add": "#c2571a"}


def draw_audit(audit: WorstCaseAudit, destination: str | Path) -> None:
    """Draw theory against measurement into a file; its suffix decides the format."""
    figure = _new_figure(10.0, 4.2)
    left, right = figure.subplots(1, 2)
    draw_delta(left, audit)
    draw_tradeoff(right, audit.scores, audit.claim, confidence=audit.report.confidence)
    figure.suptitle(_title(audit), fontsize=10)
    _save(figure, Path(destination))


def draw_scores(scores: Scores, claim: ClaimedCurve, destination: str | Path, *, confidence: float) -> None:
    """Draw the trade-off curve of somebody's scores, its band, and the floor that the claim puts under it."""
    figure = _new_figure(5.5, 4.5)
    draw_tradeoff(figure.subplots(), scores, claim, confidence=confidence)
    figure.suptitle(f"{len(scores.with_group)} runs with the group, {len(scores.without_group)} without", fontsize=10)
    _save(figure, Path(destination))


def draw_delta(axes: Any, audit: WorstCaseAudit) -> None:
    """delta over epsilon: certified lines, measured intervals where the trials resolve something."""
    for one in audit.measured:
        colour = _COLOURS[one.direction]
        certified = audit.claim.deltas[one.direction]
        drawn = certified > 0.0
        axes.plot(one.epsilons[drawn], certified[drawn], color=colour, label=f"certified, {one.direction}")
        seen = one.upper > 0.0
        floor = 0.1 / one.trials
        low, high = np.maximum(one.lower[seen], floor), one.upper[seen]
        shift = 0.2 / len(one.epsilons) * one.epsilons[-1] * (1 if one.direction == "add" else -1)
        axes.vlines(one.epsilons[seen] + shift, low, high, color=colour, linewidth=2, alpha=0.4)
        told = one.lower > 0.0
        axes.plot(one.epsilons[told] + shift, one.estimate[told], ".", color=colour, label=f"measured, {one.direction}")
    trials = min(one.trials for one in audit.measured)
    axes.set(yscale="log", xlabel="epsilon", ylabel="delta", ylim=(0.1 / trials, 1.0))
    axes.legend(fontsize=8)


def draw_tradeoff(axes: Any, scores: Scores, claim: ClaimedCurve, *, confidence: float) -> None:
    """False alarms against misses: the attack's curve with its band, and the certified floor."""
    alphas = np.linspace(0.0, 1.0, 401)
    for direction in claim.deltas:
        colour = _COLOURS[direction]
        curve = empirical_tradeoff(scores, direction=direction, confidence=confidence)
        # For every threshold the truth is in a rectangle: join their lower left and their upper right corners.
        lower = np.interp(alphas, curve.false_alarm_lower[::-1], curve.miss_lower[::-1])
        upper = np.interp(alphas, curve.false_alarm_upper[::-1], curve.miss_upper[::-1])
        axes.fill_between(alphas, lower, upper, color=colour, alpha=0.3, linewidth=0)
        floor = claimed_tradeoff(claim, direction, alphas)
        axes.plot(alphas, floor, "--", color=colour, linewidth=1, label=f"certified floor, {direction}")
        axes.plot(curve.false_alarm_rate, curve.miss_rate, color=colour, linewidth=1, label=f"attack, {direction}")
    axes.plot([0.0, 1.0], [1.0, 0.0], color="0.7", linewidth=1, label="guessing")
    axes.set(xlabel="false alarm rate", ylabel="miss rate", xlim=(0.0, 1.0), ylim=(0.0, 1.0))
    axes.legend(fontsize=8)


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


def _new_figure(width: float, height: float) -> Any:
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise InvalidArgument("plot needs matplotlib, which is missing: pip install 'groupdp[figures]'.") from None
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def _save(figure: Any, destination: Path) -> None:
    """Without a date or random names, so that the same audit gives the same file."""
    from matplotlib import rc_context

    undated = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(destination.suffix.lower(), {})
    with rc_context({"svg.hashsalt": "groupdp"}):
        figure.savefig(destination, dpi=150, metadata=undated)


def _title(audit: WorstCaseAudit) -> str:
    instance = audit.instance
    return (
        f"Worst case of DP-SGD, {instance.title}, group of {instance.group_size}, {instance.steps} rounds, "
        f"{len(audit.scores.with_group)} runs of each kind, confidence {audit.report.confidence:g}"
    )
