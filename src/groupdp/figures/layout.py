"""Axes side by side at margins known beforehand: a layout engine would have to draw everything twice to find them.

Numbers on logarithmic axes and the infinity sign are plain characters, which need no typesetting of formulas.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from groupdp.drawing import TITLE_SIZE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
# Inches, for text as large as it is: a line of the title and of the legend, a digit, an axis's name, ticks, an edge.
_TITLE_LINE, _LEGEND_LINE, _DIGIT, _NAME, _TICKS, _EDGE = 0.172, 0.19, 0.092, 0.22, 0.12, 0.06


def place(
    figure: Figure, axes: Sequence[Any], *, title: str = "", headings: bool = False, legend_rows: int = 0
) -> None:
    """Puts the axes next to each other below the title and above a legend of so many rows, with room for their names.

    `headings`: the axes have titles of their own. What is drawn later must not need more room.
    """
    width, height = figure.get_size_inches()
    top = height - _EDGE
    if title:
        figure.suptitle(title, fontsize=TITLE_SIZE, y=top / height, va="top")
        top -= _TITLE_LINE * (title.count("\n") + 1) + _EDGE
    top -= 0.24 if headings else 0.0
    bottom = _EDGE + _TICKS + _DIGIT + _NAME + (0.14 + _LEGEND_LINE * legend_rows if legend_rows else 0.0)
    for axis in axes:  # how many numbers there are depends on the height
        axis.set_position((0.1, bottom / height, 0.8, (top - bottom) / height))
    before = [_EDGE + _TICKS + _numbers_width(axis.yaxis) + (_NAME if axis.get_ylabel() else 0.0) for axis in axes]
    after = _EDGE + _DIGIT  # half of the last number below may stand out
    share = (width - sum(before) - after * len(axes)) / len(axes)
    left = 0.0
    for axis, room in zip(axes, before, strict=True):
        left += room
        axis.set_position((left / width, bottom / height, share / width, (top - bottom) / height))
        left += share + after


def _numbers_width(axis: Any) -> float:
    places = [
        place for place in axis.get_majorticklocs() if min(limits := axis.get_view_interval()) <= place <= max(limits)
    ]
    return _DIGIT * max((len(text) for text in axis.get_major_formatter().format_ticks(places)), default=1)


def powers_of_ten(axis: Any) -> None:
    """Numbers of a logarithmic axis as 10³."""
    from matplotlib.ticker import FuncFormatter, NullFormatter

    axis.set_major_formatter(FuncFormatter(lambda value, _: power_of_ten(value)))
    axis.set_minor_formatter(NullFormatter())


def power_of_ten(value: float) -> str:
    """A power of ten in words of its own; anything else as it is."""
    exponent = round(math.log10(value)) if value > 0.0 else 0
    if value > 0.0 and math.isclose(value, 10.0**exponent, rel_tol=1e-9):
        return f"10{str(exponent).translate(_SUPERSCRIPTS)}"
    return f"{value:g}"


@lru_cache(maxsize=1)
def infinity_sign() -> Any:
    """The infinity sign as a marker."""
    from matplotlib.path import Path
    from matplotlib.textpath import TextPath

    sign = TextPath((0.0, 0.0), "∞", size=1.0)
    box = sign.get_extents()
    centre = ((box.x0 + box.x1) / 2.0, (box.y0 + box.y1) / 2.0)
    return Path(sign.vertices - centre, sign.codes)
