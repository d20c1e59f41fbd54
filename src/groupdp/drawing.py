"""What all pictures share: the palette of Okabe and Ito, the frame, the title, numbers on axes, and writing the file.

Numbers on logarithmic axes and the infinity sign are plain characters, which need no typesetting of formulas.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from groupdp.errors import GroupDPError, InvalidArgument
from groupdp.printing import grouped

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
SUFFIXES = (".png", ".pdf", ".svg")
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def import_matplotlib() -> Any:
    """matplotlib.figure; half a second, the first time."""
    try:
        import matplotlib.figure
    except ImportError:
        raise GroupDPError("Pictures need matplotlib: pip install 'groupdp[figures]'.") from None
    return matplotlib.figure


def new_figure(width: float, height: float, *, title: str = "") -> Figure:
    """An empty figure of `width` by `height` inches."""
    figure: Figure = import_matplotlib().Figure(figsize=(width, height), layout="constrained")
    if title:
        figure.suptitle(title, fontsize=TITLE_SIZE)
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
    return grouped("\n".join(line for lines in wrapped for line in lines))


def check_picture_name(name: str, path: str | Path) -> None:
    """Refuse a suffix that does not name a known kind of picture."""
    if Path(path).suffix.lower() not in SUFFIXES:
        raise InvalidArgument(name, str(path), f"end in {', '.join(SUFFIXES)}")


def save_figure(figure: Figure, path: str | Path) -> None:
    """Write a picture; the kind is its suffix's. Text in PDF and SVG stays text."""
    import matplotlib

    suffix = Path(path).suffix.lower()
    # Without dates and random identifiers the same data give the same file.
    metadata = {".pdf": {"CreationDate": None}, ".svg": {"Date": None}}.get(suffix, {})
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "groupdp", "pdf.fonttype": 42}):
        # A picture of few colours is hardly smaller at the usual sixth level, which takes three times as long.
        options: dict[str, Any] = {"pil_kwargs": {"compress_level": 3}} if suffix == ".png" else {}
        figure.savefig(path, format=suffix[1:], dpi=160, metadata=metadata, **options)


def powers_of_ten(axis: Any) -> None:
    """Numbers of a logarithmic axis as 10³."""
    from matplotlib.ticker import FuncFormatter, NullFormatter

    axis.set_major_formatter(FuncFormatter(lambda value, _: power_of_ten(value)))
    axis.set_minor_formatter(NullFormatter())


def power_of_ten(value: float) -> str:
    """10 with a superscript for a power of ten; another number as it is."""
    exponent = round(math.log10(value)) if value > 0.0 else 0
    if value > 0.0 and math.isclose(value, 10.0**exponent, rel_tol=1e-9):
        return f"10{str(exponent).translate(_SUPERSCRIPTS)}"
    return f"{value:g}"


def spaced(places: Sequence[Any], apart: float) -> list[Any]:
    """Some of these places in increasing order, the first among them, each at least so far from the one before."""
    kept = [places[0]]
    for place in places[1:]:
        if place - kept[-1] >= apart:
            kept.append(place)
    return kept


@lru_cache(maxsize=1)
def infinity_sign() -> Any:
    """The infinity sign as a marker."""
    from matplotlib.path import Path as Outline
    from matplotlib.textpath import TextPath

    sign = TextPath((0.0, 0.0), "∞", size=1.0)
    box = sign.get_extents()
    centre = ((box.x0 + box.x1) / 2.0, (box.y0 + box.y1) / 2.0)
    return Outline(sign.vertices - centre, sign.codes)
