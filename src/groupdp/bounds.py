"""Certified intervals: a result that names its sides and never rounds in its own favour."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import partial
from types import MappingProxyType
from typing import Any

from groupdp.errors import InvalidArgument
from groupdp.printing import lower_text, round_down, round_up, upper_text

#: Significant digits shown by `str(bounds)`.
SHOWN_DIGITS = 12
#: Widths of smaller values than this are relative to it.
_SMALLEST = 1e-7


def upper_or_both(bounds: Bounds, digits: int) -> str:
    """The upper side, rounded up, where both sides agree to within 5 units of its last digit; else both sides."""
    agree = math.isfinite(bounds.upper) and bounds.width <= 5.0 * 10.0 ** (1 - digits) * abs(bounds.upper)
    if agree or bounds.lower == bounds.upper:
        return upper_text(bounds.upper, digits)
    return f"{lower_text(bounds.lower, digits)} to {upper_text(bounds.upper, digits)}"


_NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """How a pair of bounds was obtained."""

    engine: str = "exact"
    """"spectral", "lattice", "closed form" or "exact"."""

    implementation: str = ""
    """Which implementation of the engine answered: "compiled" or "NumPy"; empty for exact values."""

    adjacency: str | None = None
    """The ordered change of datasets that decided the result, named as in neighbours.py."""

    directions: Mapping[str, tuple[float, float]] = field(default_factory=lambda: _NOTHING)
    """(lower, upper) of every ordered change that was evaluated."""

    evaluations: Mapping[str, int] = field(default_factory=lambda: _NOTHING)
    """What it cost: quadrature nodes, contour steps, grid points."""

    tolerance: float | None = None
    """The relative width that was asked for, if any."""

    tolerance_met: bool = True
    """False if the bounds are valid but wider than asked for."""

    def __post_init__(self) -> None:
        if type(self.directions) is not MappingProxyType:
            object.__setattr__(self, "directions", MappingProxyType(dict(self.directions)))
        if type(self.evaluations) is not MappingProxyType:
            object.__setattr__(self, "evaluations", MappingProxyType(dict(self.evaluations)))

    def __reduce__(self) -> tuple[Any, ...]:
        # A read-only mapping can be neither pickled nor copied; results must be, to come back from other processes.
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        values.update(directions=dict(self.directions), evaluations=dict(self.evaluations))
        return partial(Provenance, **values), ()


@dataclass(frozen=True, slots=True)
class Bounds:
    """An interval that is proved to contain the true value.

    For an epsilon or a delta, `upper` is the guarantee and `lower` says how far it is from the best
    possible one (of every analysis if it is `tight`, of this analysis if not). A comparison is true only when it holds
    for every value inside: `bounds <= 8` means
    `upper <= 8`, and both `bounds <= 8` and `bounds >= 8` are false when 8 lies strictly inside.
    There is no midpoint: `float(bounds)` is an error, choose a side.
    """

    lower: float
    upper: float
    provenance: Provenance = field(default_factory=Provenance, compare=False, repr=False)
    tight: bool = field(default=True, compare=False, repr=False)
    """Whether some loss and datasets attain what was analysed, so that no valid guarantee is below `lower`. If not, the
    guarantee is valid all the same, but `lower` is a bound on this analysis alone: a better one may prove less."""

    def __post_init__(self) -> None:
        if not self.lower <= self.upper:  # also catches NaN: a bug, never the user's fault
            raise AssertionError(f"bounds are not ordered: lower {self.lower!r}, upper {self.upper!r}")

    def __repr__(self) -> str:
        tight = "" if self.tight else ", tight=False"
        return f"Bounds(lower={self.lower!r}, upper={self.upper!r}{tight})"

    @property
    def width(self) -> float:
        """upper - lower, rounded up; 0 where both sides are the same infinity."""
        if self.lower == self.upper:
            return 0.0
        return math.nextafter(self.upper - self.lower, math.inf)

    @property
    def relative_width(self) -> float:
        """The width relative to `upper` itself, or to 1e-7 if that is larger; of a logarithm of a probability, which is
        not above 0, to max(1, |upper|)."""
        if math.isinf(self.upper):
            return 0.0 if self.lower == self.upper else math.inf
        return self.width / max(_SMALLEST if self.upper > 0.0 else 1.0, abs(self.upper))

    def intersects(self, other: Bounds) -> bool:
        """Whether some value lies in both: two valid answers to one question always do."""
        return self.lower <= other.upper and other.lower <= self.upper

    def __contains__(self, value: float) -> bool:
        return self.lower <= value <= self.upper

    def __le__(self, other: Bounds | float) -> bool:
        return self.upper <= (other.lower if isinstance(other, Bounds) else other)

    def __lt__(self, other: Bounds | float) -> bool:
        return self.upper < (other.lower if isinstance(other, Bounds) else other)

    def __ge__(self, other: Bounds | float) -> bool:
        return self.lower >= (other.upper if isinstance(other, Bounds) else other)

    def __gt__(self, other: Bounds | float) -> bool:
        return self.lower > (other.upper if isinstance(other, Bounds) else other)

    def __float__(self) -> float:
        raise TypeError("Bounds is not a number: use .upper (the guarantee) or .lower.")

    def __str__(self) -> str:
        return format(self)

    def __format__(self, specification: str) -> str:
        """`f"{bounds:6}"` shows 6 significant digits, rounded outward on both sides."""
        digits = SHOWN_DIGITS
        if specification:
            if not (re.fullmatch("[0-9]{1,4}", specification) and 1 <= int(specification) <= 1000):
                raise InvalidArgument("the format of bounds", specification, "be a number of digits from 1 to 1000")
            digits = int(specification)
        return f"[{round_down(self.lower, digits)}, {round_up(self.upper, digits)}]"
