"""The budget spent against steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from groupdp.errors import GroupDPError
from groupdp.sweeps.spend import Spending

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_spending(spending: Spending, *, title: str) -> Figure:
    """epsilon (certified upper bounds) after each step drawn, with the target and where it is reached."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise GroupDPError("pictures need the extra figures: pip install 'groupdp[figures]'.") from None
    figure = Figure(figsize=(7.2, 4.4), layout="constrained")
    axes = figure.subplots()
    figure.suptitle(title, fontsize=10)
    steps = [0, *(one.steps for one in spending.points)]
    values = [0.0, *(one.epsilon.upper for one in spending.points)]
    axes.plot(steps, values, color="#0072B2", linewidth=1.8, label="spent so far (certified upper bound)")
    if spending.target is not None:
        axes.axhline(spending.target, color="#D55E00", linestyle="--", label=f"target: epsilon = {spending.target:g}")
        if spending.last_step_within is not None:
            label = f"last step within it: {spending.last_step_within}"
            axes.axvline(spending.last_step_within, color="#555555", linestyle=":", label=label)
    axes.set(xlabel="steps", ylabel="epsilon")
    axes.set_ylim(bottom=0.0)
    axes.margins(x=0.02)
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, fontsize=9)
    return figure
