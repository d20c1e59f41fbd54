"""What all pictures share: the palette of Okabe and Ito, the frame, the title."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

from groupdp.errors import GroupDPError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BLUE, ORANGE, GREEN, PINK = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
AMBER, SKY, BLACK, GREY = "#E69F00", "#56B4E9", "#000000", "#555555"
#: For several curves of one kind.
COLOURS = (BLUE, ORANGE, GREEN, PINK, AMBER, SKY, BLACK, "#999999")
#: Reference lines: guessing, a target.
GUIDE: dict[str, Any] = {"color": GREY, "linewidth": 1.2}
TITLE_SIZE = 10
_TITLE_LINES = 4


def import_matplotlib() -> Any:
    """matplotlib.figure; half a second, the first time."""
    try:
        import matplotlib.figure
    except ImportError:
        raise GroupDPError("Pictures need matplotlib: pip install 'groupdp[figures]'.") from None
    return matplotlib.figure


def new_figure(width: float, height: float, *, layout: str | None = "constrained") -> Figure:
    """An empty figure of so many inches; `layout` None where the axes are placed by layout.py."""
    figure: Figure = import_matplotlib().Figure(figsize=(width, height), layout=layout)
    return figure


def finish(axes: Any, *, legend: str | None = None) -> None:
    """The frame that all pictures have: a light grid, no edge at the top and on the right."""
    axes.grid(True, which="major", color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    if legend is not None:
        axes.legend(loc=legend, frameon=True, framealpha=0.9, edgecolor="none", fontsize=8.5)


def plain_logarithmic(axis: Any) -> None:
    """Ticks 1, 2, 5, 10, ... with plain numbers, for logarithmic axes of few powers of ten."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def title_lines(parts: list[str], width: int = 95) -> str:
    """A title from sentences about the phases and, last, the question, wrapped.

    Where that is more than four lines, the first phases are named and the others counted.
    """
    wrapped = [textwrap.wrap(part, width, break_on_hyphens=False) for part in parts]
    *phases, question = wrapped
    if sum(map(len, wrapped)) > _TITLE_LINES and len(phases) > 1:
        kept = phases[:1]
        while sum(map(len, (*kept, phases[len(kept)], question))) + 1 <= _TITLE_LINES:
            kept.append(phases[len(kept)])
        more = len(phases) - len(kept)
        wrapped = [*kept, [f"and {more} more phase{'' if more == 1 else 's'}"], question]
    return "\n".join(line for lines in wrapped for line in lines)
