"""The picture of a trade-off curve."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from groupdp.drawing import BLUE, GUIDE, finish, new_figure
from groupdp.figures.curves import save_figure
from groupdp.figures.layout import place, powers_of_ten

if TYPE_CHECKING:
    from groupdp.tradeoff import TradeOffCurve


def rates_to_draw() -> npt.NDArray[np.float64]:
    """False positive rates that are close enough together for both axes: no corner is seen."""
    bend = np.geomspace(0.002, 0.3, 44)
    return np.concatenate([np.geomspace(1e-12, 0.002, 24)[:-1], bend, np.linspace(0.3, 1.0 - 1e-12, 16)[1:]])


def draw_trade_off(curve: TradeOffCurve, path: str | Path, *, title: str) -> None:
    """The certified curve on linear axes, and its tail on logarithmic ones."""
    figure = new_figure(9.0, 4.4, layout=None)
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
    place(figure, (left, right), title=f"Telling two neighbouring datasets apart (certified)\n{title}")
    save_figure(figure, path)
