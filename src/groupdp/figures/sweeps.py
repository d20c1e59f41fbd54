"""Pictures of a sweep: curves for one varying name (or a second with few values), a heat map for two."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from groupdp.errors import InvalidArgument
from groupdp.figures.style import COLOURS, TITLE_SIZE, finish, new_figure
from groupdp.sweeps.sweep import Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: A second name with up to so many values is drawn as curves.
_MOST_CURVES = 8
_LINES = ("-", "--", "-.", ":")


def check_names(names: Sequence[str]) -> None:
    """Refuse what has more dimensions than a picture."""
    if len(names) > 2:
        raise InvalidArgument(f"plot must be of one or two varying names, got {len(names)}: {', '.join(names)}.")


def draw_sweep(rows: Sequence[Row], *, title: str) -> Figure:
    """epsilon over what varies: certified upper bounds."""
    names = list(rows[0].values)
    check_names(names)
    figure = new_figure(7.2, 4.8)
    axes = figure.subplots()
    figure.suptitle(title, fontsize=TITLE_SIZE)
    first = _distinct(row.values[names[0]] for row in rows)
    second = _distinct(row.values[names[1]] for row in rows) if len(names) == 2 else []
    uppers = {tuple(row.values.values()): _finite(row.epsilon_upper) for row in rows}
    if len(second) > _MOST_CURVES and all(isinstance(value, int | float) for value in (*first, *second)):
        _heat_map(figure, axes, names, (first, second), uppers)
    else:
        _curves(axes, names, first, second, uppers)
    return figure


def _curves(axes: Any, names: list[str], first: list[Any], second: list[Any], uppers: dict[Any, float]) -> None:
    for index, other in enumerate(second or [None]):
        values = [uppers[(value,) if other is None else (value, other)] for value in first]
        shown = f"{other:g}" if isinstance(other, int | float) else str(other)
        label = None if other is None else f"{names[1].replace('_', ' ')} = {shown}"
        style = {"color": COLOURS[index % len(COLOURS)], "linestyle": _LINES[index % len(_LINES)], "linewidth": 1.8}
        axes.plot(first, values, label=label, marker="." if len(first) <= 40 else None, **style)
    axes.set_xlabel(names[0].replace("_", " "))
    axes.set_ylabel("epsilon (certified upper bound)")
    finite = [value for value in uppers.values() if value > 0.0 and math.isfinite(value)]
    if finite and max(finite) > 100.0 * min(finite):
        axes.set_yscale("log")
    axes.margins(x=0.03)
    finish(axes, legend="best" if second else None)


def _heat_map(figure: Any, axes: Any, names: list[str], sides: Any, uppers: dict[Any, float]) -> None:
    import numpy as np

    first, second = sides
    values = np.array([[uppers[(x, y)] for x in first] for y in second])
    shown = np.ma.masked_invalid(np.where(values > 0.0, values, np.nan))
    mesh = axes.pcolormesh(first, second, np.log10(shown), shading="nearest", cmap="viridis", rasterized=True)
    bar = figure.colorbar(mesh, ax=axes)
    bar.set_label("epsilon (certified upper bound)")
    marks = [digit * 10.0**power for power in range(-6, 9) for digit in (1, 2, 5)]
    ticks = [mark for mark in marks if shown.min() <= mark <= shown.max()]
    if ticks:
        bar.set_ticks(np.log10(ticks), labels=[f"{mark:g}" for mark in ticks])
    levels = [level for level in (0.5, 1, 2, 4, 8, 16, 32, 64, 128) if shown.min() < level < shown.max()]
    if levels and len(first) > 1 and len(second) > 1:
        lines = axes.contour(first, second, shown, levels=levels, colors="white", linewidths=0.8)
        axes.clabel(lines, fmt="%g", fontsize=8)
    axes.set_xlabel(names[0].replace("_", " "))
    axes.set_ylabel(names[1].replace("_", " "))


def _distinct(values: Any) -> list[Any]:
    return list(dict.fromkeys(values))


def _finite(value: float | None) -> float:
    return math.nan if value is None or math.isinf(value) else value
