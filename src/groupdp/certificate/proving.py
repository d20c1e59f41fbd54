"""Which method is to prove a claim, with which hints; and the interval that can be proved where the claim's cannot."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from flint import arb, ctx, fmpq

from groupdp.certificate.checker import MOST_POINTS, delta_of, largest_loss
from groupdp.certificate.hints import hints_for
from groupdp.certificate.lattice_hints import lattice_hints
from groupdp.certificate.laws import Change, Noiseless, Profile, changes, composition
from groupdp.certificate.noiseless import revealed
from groupdp.certificate.reading import Clock, NotACertificate, Undecided, number
from groupdp.errors import InvalidArgument

#: How far below the claim's own width the contour's errors are asked to be, one attempt after the other.
ATTEMPTS = (1e-2, 1e-4, 1e-7)
#: Cells of a round on the lattice, one attempt after the other.
CELLS = (8_000, 60_000)
#: Points of a contour for which an envelope, every point of which takes integrals, is faster than a lattice.
_MOST_ENVELOPE_POINTS = 1_000
#: Relative width of an interval that is not worth more cells.
NARROW = 1e-4


def hints_of(claim: dict[str, Any], pairs: list[Change], share: float, *, cells: int | None = None) -> dict[str, Any]:
    """Hints for every pair that needs some: for a contour if it decays soon enough, else for a lattice of `cells`.

    With `cells`, a pair whose delta is well below the claim's keeps Chernoff's bound, and all others get a lattice.
    """
    lower, upper = (float(claim["epsilon"][side]) for side in ("lower", "upper"))
    middle = lower + (upper - lower) / 2 if math.isfinite(upper) else lower
    width = max((upper - lower) / max(middle, 1e-9), 1e-14) if math.isfinite(upper) else 1e-3
    if lower == 0.0:  # only the upper side is to be proved
        middle, width = upper, 1e-3
    found = {}
    for change in pairs:
        try:
            parts = composition(claim["run"], change)
            noisy = [(one, times) for one, times in parts if not isinstance(one, Noiseless)]
            quiet = revealed([(one, times) for one, times in parts if isinstance(one, Noiseless)])
            if sum(times for _, times in noisy) < 2 or not math.isfinite(middle):
                continue  # a closed form needs no hints
            left = float(quiet.p[0]), float(Decimal(claim["delta"]).ln())
            target = math.log((math.exp(left[1]) - 1 + left[0]) / left[0]) if left[0] < 1.0 else left[1]
            asked = {"epsilon": middle - float(quiet.most), "log_delta": target, "accuracy": share * width * middle}
            found[change.name] = hints_for_pair(noisy, asked, cells)
        except (Undecided, ValueError, OverflowError, ZeroDivisionError):
            continue  # the checker will say what is missing
    return found


def needs_lattice(claim: dict[str, Any]) -> bool:
    """Whether a contour is too long for one of the pairs."""
    try:
        return any("method" in part for part in hints_of(claim, changes(claim), ATTEMPTS[0]).values())
    except NotACertificate as error:
        raise InvalidArgument(str(error)) from None


def hints_for_pair(noisy: Any, asked: dict[str, float], cells: int | None) -> dict[str, Any]:
    """A contour, or the lattice."""
    if asked["epsilon"] >= float(largest_loss(noisy)):
        raise Undecided("no hints are needed")
    try:
        hints = hints_for(noisy, **asked)
        most = _MOST_ENVELOPE_POINTS if any(isinstance(one, Profile) for one, _ in noisy) else MOST_POINTS
        if hints["points"] == 0 or (cells is None and hints["points"] <= most):
            return hints
    except Undecided:
        pass
    wanted = {**asked, "accuracy": max(25 * asked["accuracy"], 1e-9 * abs(asked["epsilon"]))}
    return lattice_hints(noisy, **wanted, most=cells or CELLS[0])


def proved_epsilon(
    claim: dict[str, Any], hints: dict[str, Any], bounds: tuple[float, float], clock: Clock
) -> tuple[float, float]:
    """The interval around `bounds` that the checker can prove with these hints; `bounds` if there is none."""
    target = number(claim["delta"], "delta", 0, 1)
    uppers, lowers, seen = [], [0.0], list[Any]()
    for change in changes(claim):
        mine = hints.get(change.name)
        with ctx.workprec(int(mine["precision"]) if mine else 192):
            try:
                parts = composition(claim["run"], change, clock.check)
            except Undecided:
                return bounds
            if (parts, mine) in seen:
                continue
            seen.append((parts, mine))
            bound = delta_of(parts, mine, clock)
            uppers.append(_outward(bounds[1], 1, bound, target))
            lowers.append((_outward(bounds[0], -1, bound, target) if bounds[0] > 0.0 else None) or 0.0)
    if None in uppers:
        return bounds
    return min(max(lowers), bounds[0]), max(bounds[1], *(x for x in uppers if x is not None))


def _outward(start: float, sign: int, bound: Callable[[arb], tuple[arb, arb]], target: fmpq) -> float | None:
    """A number near `start`, above it (1) with delta <= target, or below it (-1) with delta >= target; or None."""

    def holds(log_distance: float) -> bool:
        lower, upper = bound(arb(start * (1 + sign * math.exp(log_distance))))
        return bool(upper <= target) if sign > 0 else bool(lower >= target)

    if not math.isfinite(start):
        return start
    low = high = math.log(1e-14)
    try:
        while not holds(high):
            low, high = high, high + 2.0
            if high > 0.0:
                return None
        for _ in range(5 if high > low else 0):
            middle = (low + high) / 2
            low, high = (low, middle) if holds(middle) else (middle, high)
    except Undecided:
        return None
    return start * (1 + sign * math.exp(high))
