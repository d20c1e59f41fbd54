"""Pictures of a privacy loss distribution; matplotlib is loaded only here."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from groupdp._files import NewFiles
from groupdp._validation import shown
from groupdp.drawing import BLUE, ORANGE, TITLE_SIZE, finish, new_figure, title_lines
from groupdp.errors import InvalidArgument, InWords
from groupdp.pld.measures import Measure

if TYPE_CHECKING:
    from groupdp.pld.distribution import PrivacyLossDistribution

#: Points of each line that is drawn.
_POINTS = 400
#: Losses rarer than this, on either side, are not shown.
_RARE = 1e-9


def plot(distribution: PrivacyLossDistribution, target: Any) -> None:
    """Draw onto axes (densities), or into a file (densities, and the curve of delta beside them)."""
    if hasattr(target, "plot") and hasattr(target, "set_xlabel"):
        _draw_densities(distribution, target)
        return
    if not isinstance(target, str | Path):
        raise InvalidArgument("target", target, "be a path or matplotlib axes")
    figure = new_figure(10.0, 4.4)
    left, right = figure.subplots(1, 2)
    _draw_densities(distribution, left)
    _draw_curve(distribution, right)
    rounds = f"{distribution.rounds} round{'' if distribution.rounds == 1 else 's'}"
    lines = [f"Privacy loss of {rounds}, {distribution.direction}"]
    if distribution.about:
        lines.insert(0, distribution.about)
    figure.suptitle(title_lines(lines, 110), fontsize=TITLE_SIZE)
    with NewFiles("target") as files:
        temporary = files.temporary(target)
        try:
            figure.savefig(temporary)
        except ValueError as error:
            raise InvalidArgument(
                "target", InWords(f"{shown(str(target))} ({error})"), "be a file name of a picture"
            ) from None


def _draw_densities(distribution: PrivacyLossDistribution, axes: Any) -> None:
    low, high = _visible(distribution.upper)
    for measure, label, style in (
        (distribution.upper, "dominating", {"color": BLUE}),
        (distribution.lower, "dominated", {"color": ORANGE, "linestyle": "--"}),
    ):
        losses, densities = _density(measure, low, high)
        axes.plot(losses, densities, label=label, **style)
    axes.set_xlabel(f"privacy loss ({distribution.direction}, rounds: {distribution.rounds})")
    axes.set_ylabel("density")
    finish(axes, legend="upper right")


def _draw_curve(distribution: PrivacyLossDistribution, axes: Any) -> None:
    _, high = _visible(distribution.upper)
    epsilons = np.linspace(0.0, max(high, distribution.grid_step), _POINTS // 4)
    deltas = [distribution.delta(float(epsilon)) for epsilon in epsilons]
    axes.semilogy(epsilons, [max(delta.upper, 1e-300) for delta in deltas], color=BLUE, label="upper bound")
    axes.semilogy(
        epsilons, [max(delta.lower, 1e-300) for delta in deltas], color=ORANGE, linestyle="--", label="lower bound"
    )
    axes.set_xlabel("epsilon")
    axes.set_ylabel("delta")
    finish(axes, legend="upper right")


def _visible(measure: Measure) -> tuple[float, float]:
    """The losses between which all but the rarest lie."""
    cumulative = np.cumsum(measure.masses)
    ends = np.searchsorted(cumulative, [_RARE, cumulative[-1] - _RARE])
    low, high = (measure.step * (measure.first + int(end)) for end in ends)
    return low, max(high, low + measure.step)


def _density(measure: Measure, low: float, high: float) -> tuple[Any, Any]:
    """Mass per unit of loss, over blocks of lattice points so that a few hundred are left."""
    block = max(int((high - low) / measure.step / _POINTS), 1)
    start = max(int(low / measure.step) - measure.first - block, 0)
    stop = min(int(high / measure.step) - measure.first + block, len(measure.masses))
    count = max((stop - start) // block, 0)
    sums = measure.masses[start : start + count * block].reshape(count, block).sum(axis=1)
    centres = measure.step * (measure.first + start + block * np.arange(count) + 0.5 * (block - 1))
    return centres, sums / (block * measure.step)
