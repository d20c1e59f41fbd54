"""The budget spent against steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from groupdp.drawing import BLUE, GUIDE, ORANGE, TITLE_SIZE, finish, new_figure
from groupdp.printing import given
from groupdp.sweeps.spend import Spending

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_spending(spending: Spending, *, title: str) -> Figure:
    """epsilon (certified upper bounds) after each step drawn, with the target and where it is reached."""
    figure = new_figure(7.2, 4.6)
    axes = figure.subplots()
    figure.suptitle(title, fontsize=TITLE_SIZE)
    steps = [0, *(one.steps for one in spending.points)]
    values = [0.0, *(one.epsilon.upper for one in spending.points)]
    axes.plot(steps, values, color=BLUE, linewidth=1.8, label="spent so far (certified upper bound)")
    ends = [one for one in spending.points if one.epoch]
    if ends:
        spots = ([one.steps for one in ends], [one.epsilon.upper for one in ends])
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
