"""The black-box group bound of f-DP: the example's trade-off function composed with itself, k times.

Dong, Roth and Su (2022), Theorem 2.14: if one example's presence is protected by f, a group of k is protected by
1 - (1 - f)^{o k}. With h = 1 - f (the largest true positive rate) an attack's positives grow at most as
alpha -> h(alpha) -> h(h(alpha)) -> ... along a chain of k neighbouring datasets. h lies below all its tangents
delta(eps) + e^eps alpha, so every choice of eps_1, ..., eps_k proves (eps_1 + ... + eps_k, A)-DP for the group with

    A = delta(eps_k) + e^{eps_k} (delta(eps_{k-1}) + e^{eps_{k-1}} ( ... )).

Equal eps_i are Vadhan's lemma; the best ones, computed here, are the tangents along the orbit of one alpha.
"""

from __future__ import annotations

import math
from contextlib import suppress
from typing import Any

from groupdp.baselines.one_example import require_walk
from groupdp.bounds import Bounds, Provenance
from groupdp.compositions import epsilon_of
from groupdp.engines import Progress, Work, options_of
from groupdp.errors import LimitExceeded, require_integer, require_number
from groupdp.groups import LARGEST_GROUP
from groupdp.neighbours import ONE_SIDED, directions_of
from groupdp.pairs import ZERO, Round, Side
from groupdp.tradeoff import TradeOff, trade_off
from groupdp.tradeoff.minorant import Interpolated

#: Tangents that one direction may take: group size times iterations on log alpha.
_MOST_TANGENTS = 400
#: Steps of the search for a start, which interpolates; the longest step in log(-log alpha).
_MOST_GUESSES, _MOST_GUESSED, _GUESSED, _LONGEST = 40, 200_000, 1e-6, math.log(4.0)
#: Relative error of the shift of a Gaussian run, generously; beyond the other one chains are searched for.
_SHIFT_ERROR, _LARGEST_SHIFT = 2.0**-48, 1e100
_HALF = math.log(2.0)
_NOWHERE: list[float | None] = [None]
#: Starts that contours may refuse, and work on one direction, after which the bounds found so far are returned.
_MOST_REFUSED, _MOST_WORK = 8, 10_000_000
#: What a tangent costs, beside contours and lattices.
_WORK_OF_A_TANGENT = {"contours": 5_000, "closed": 30_000, "lattices": 60_000, "noiseless": 300_000}
#: How far below log delta the chain's log A is aimed at, so that the certificate ends on the right side.
_BELOW = 3e-9
#: The bounds are to agree to this much, relative to epsilon.
TOLERANCE = 1e-8
_ROUNDING = 2.0**-46
#: So many times wider they are still said to be what was asked for. From there on so many iterations are the last that
#: leave more than this part of the width.
_MET, _MOST_IN_VAIN, _GAIN = 10.0, 2, 0.9
#: Changes of the last tangent, where log A is this near to log delta and does not fall more slowly than e^-_FLAT; how
#: far below it may stay. They decide how close the bounds are, not whether they hold.
_MOST_CHANGES, _NEAR, _FLAT, _CLOSE_BELOW = 6, 1e-2, 12.0, 1e-9


def fdp_epsilon(
    run: Any,
    *,
    delta: float,
    group_size: int,
    adjacency: str = "add-or-remove",
    engine: str = "auto",
    progress: Progress | None = None,
) -> Bounds:
    """The epsilon for groups that the f-DP group bound gives at `delta`.

    `upper` is a valid guarantee; `lower` bounds what this analysis can give, not the true privacy. The chain goes in
    one direction at a time, and the worse direction counts.
    """
    size = require_integer("group_size", group_size, at_least=0, at_most=LARGEST_GROUP)
    log_target = math.log(require_number("delta", delta, above=0.0, below=1.0))
    require_walk(run)
    if size == 0:
        return Bounds(0.0, 0.0)
    results: list[Bounds] = []
    for direction in directions_of(adjacency) if adjacency in ONE_SIDED else (adjacency,):
        example = trade_off(run, group_size=1, adjacency=direction, engine=engine)
        example.limit_lattices(Work(_MOST_WORK // 2))
        # A direction whose guarantee is below what another one can give does not decide.
        enough = max((bounds.lower for bounds in results), default=0.0)
        results.append(_one_direction(example, size, log_target, enough, progress))
    lower, upper = max(bounds.lower for bounds in results), max(bounds.upper for bounds in results)
    met = upper - lower <= _MET * TOLERANCE * upper
    return Bounds(
        lower, upper, Provenance(engine="f-DP", adjacency=adjacency, tolerance=_MET * TOLERANCE, tolerance_met=met)
    )


def _one_direction(example: TradeOff, size: int, log_target: float, enough: float, progress: Progress | None) -> Bounds:
    """Bounds on what the chain gives in one direction; the search ends early once that is at most `enough`."""
    if not example.composition:
        return Bounds(0.0, 0.0)
    if _guarantee([(example.log_delta(0.0).upper, 0.0)] * size)[1] <= log_target:
        return Bounds(0.0, 0.0)
    shift = example.gaussian_shift
    if shift is not None and size * shift < _LARGEST_SHIFT:
        return _gaussian(size * shift, log_target)
    ceiling = _ceiling(example, size, log_target)
    if ceiling <= enough:
        return Bounds(0.0, ceiling)
    best_upper, best_lower, work = ceiling, 0.0, Work(_MOST_WORK)
    places, is_known, curve = _NOWHERE * size, True, example.interpolated
    kind = "contours" if curve is not None else "lattices" if example.is_costly else "closed"
    price = _WORK_OF_A_TANGENT[kind if example.largest_shift < math.inf else "noiseless"]
    # The tangent at alpha has intercept A(alpha), increasing in alpha: find A = delta, or a little less.
    crossing = _Crossing(log_target - _BELOW)
    if curve is not None:
        log_alpha, places, is_known = _start(curve, size, log_target)
    else:
        log_alpha = _start_of_gaussian(example, size, log_target)
    narrowest, in_vain = math.inf, 0
    for iteration in range(max(_MOST_TANGENTS // size, 12)):
        if work.done + size * price > work.limit:
            break
        work.spend(size * price)
        try:
            chain = _Chain(example, places, log_alpha, flat=not is_known)
        except LimitExceeded:
            break
        total, log_intercept, log_image = chain.total, chain.log_intercept, chain.log_image
        if progress is not None:
            progress(1.0 - 0.8**iteration)
        if log_intercept <= log_target:
            best_upper = min(best_upper, max(total, 0.0))
        best_upper = min(best_upper, chain.total_for(log_target))
        # (h^k(alpha) - delta) / alpha is a lower bound on e^eps for this analysis; the rounding of the
        # logarithms is subtracted: near the root it is not small beside their difference.
        excess = log_image - log_target - _ROUNDING * (abs(log_image) + abs(log_target))
        if excess > 0.0:
            gap = log_image + math.log(-math.expm1(-excess))
            best_lower = max(best_lower, gap - log_alpha - _ROUNDING * (abs(gap) + abs(log_alpha) + 1.0))
        width = best_upper - best_lower
        if best_upper <= enough or (best_upper < math.inf and width <= TOLERANCE * best_upper):
            break
        in_vain = in_vain + 1 if width > _GAIN * narrowest else 0
        narrowest = min(narrowest, width)
        if in_vain == _MOST_IN_VAIN and width <= _MET * TOLERANCE * best_upper:
            break
        if not is_known and curve is not None:
            with suppress(LimitExceeded):
                best_upper = min(best_upper, _beyond(example, curve, places, log_alpha, log_target))
            break
        following = crossing.next(log_alpha, log_intercept)
        if abs(following - log_alpha) <= 1e-11 * abs(log_alpha) or following in (crossing.low, crossing.high):
            break
        log_alpha, places = following, [epsilon for _, epsilon in chain.tangents]
    if best_upper == math.inf:
        raise LimitExceeded(f"the f-DP group bound is not known within its limit of {_MOST_WORK:.3g} operations.")
    return Bounds(min(best_lower, best_upper), best_upper)


def _gaussian(shift: float, log_target: float) -> Bounds:
    """G_mu composed with itself k times is G_{k mu} (Dong, Roth and Su 2022): epsilon increases with the shift."""
    if not shift < _LARGEST_SHIFT:
        return Bounds(0.0, math.inf)
    sides = [((Round.of(Side.point(shift * part), ZERO), 1),) for part in (1.0 - _SHIFT_ERROR, 1.0 + _SHIFT_ERROR)]
    lower, upper = (epsilon_of(side, log_target, options_of(engine="auto")) for side in sides)
    return Bounds(lower.lower, upper.upper)


def _ceiling(example: TradeOff, size: int, log_target: float) -> float:
    """A bound at hand: TPR is at most that of the Gaussian with the largest shifts (P-0), and at most e^M alpha with M
    the largest loss (T-8); so is each of the chain."""
    gaussian = _gaussian(size * example.largest_shift, log_target).upper
    return min(gaussian, size * example.largest_loss * (1.0 + _SHIFT_ERROR))


def _beyond(
    example: TradeOff, curve: Interpolated, places: list[float | None], log_alpha: float, log_target: float
) -> float:
    """An upper bound where contours end at alpha: the last steps of the chain from there, the first ones as Gaussians.

    The Gaussian of the first steps (P-0) has a tangent, as one step has.
    """
    few, many = 0, len(places) if None not in places else 0  # steps whose intercept is at most delta / 2, and more
    while many - few > 1:
        middle = (few + many) // 2
        is_below = _guess(curve, middle, log_alpha)[0] <= log_target - _HALF
        few, many = (middle, many) if is_below else (few, middle)
    if few == 0:
        return math.inf
    chain = _Chain(example, places[:few], log_alpha)
    log_delta = log_target - 1.01 * _HALF - chain.total
    shift = (len(places) - few) * example.largest_shift
    total, log_intercept = _guarantee([(log_delta, _gaussian(shift, log_delta).upper), *chain.tangents])
    return total if log_intercept <= log_target else math.inf


def _start(curve: Interpolated, size: int, log_target: float) -> tuple[float, list[float | None], bool]:
    """About the log alpha whose chain has the intercept delta, where its tangents are, and whether that is known.

    Where contours do not reach that far: the smallest alpha tried that they do reach.
    """
    crossing, log_alpha, refused = _Crossing(log_target), log_target, 0
    best: tuple[float, list[float | None], bool] = (log_target, [None] * size, False)
    for _ in range(min(_MOST_GUESSES, _MOST_GUESSED // size)):
        try:
            log_intercept, places = _guess(curve, size, log_alpha)
        except LimitExceeded:
            refused += 1
            crossing.refuse(log_alpha)
            if refused == _MOST_REFUSED:
                break
            log_alpha = crossing.between()
            continue
        is_found = abs(log_intercept - log_target) <= _GUESSED
        if is_found or log_intercept > log_target or not best[2]:
            best = log_alpha, places, True
        if is_found:
            return best
        log_alpha = crossing.next(log_alpha, log_intercept)
    return best[0], best[1], not refused


def _start_of_gaussian(example: TradeOff, size: int, log_target: float) -> float:
    """The log alpha of the Gaussian with the same delta(0), where nothing better is known."""
    from scipy.special import log_ndtr, ndtri  # not before it is needed: a third of a second

    distance = math.exp(example.log_delta(0.0).upper)
    shift = 2.0 * size * float(ndtri(min(0.5 + 0.5 * distance, 1.0 - 2.0**-53)))
    epsilon = _gaussian(shift, log_target).upper
    return min(float(log_ndtr(-epsilon / shift - 0.5 * shift)), log_target) if shift > 0.0 else log_target


def _guess(curve: Interpolated, size: int, log_alpha: float) -> tuple[float, list[float | None]]:
    """log of the intercept of the chain at alpha, and the epsilons of its tangents, about."""
    places: list[float | None] = []
    log_intercept = -math.inf
    for _ in range(size):
        log_delta, epsilon, log_alpha = curve.tangent(log_alpha)
        places.append(epsilon)
        carried = epsilon + log_intercept
        log_intercept = max(log_delta, carried) + math.log1p(math.exp(-abs(log_delta - carried)))
    return log_intercept, places


class _Crossing:
    """Where log A is at a level: secants of log(-log A) in log(-log alpha), between `low` and `high`.

    Far from there A is about a power of alpha, whose exponent may be large or small.
    """

    def __init__(self, level: float) -> None:
        self.level, self.low, self.high = level, -math.inf, 0.0
        self.before: tuple[float, float] | None = None

    def next(self, log_alpha: float, log_intercept: float) -> float:
        """The log alpha to try after this one, which has this log A."""
        is_below = log_intercept <= self.level
        self.low, self.high = (
            (max(self.low, log_alpha), self.high) if is_below else (self.low, min(self.high, log_alpha))
        )
        x, y = math.log(-log_alpha), math.log(log_intercept / self.level) if log_intercept < 0.0 else -math.inf
        slope = 1.0
        if self.before is not None and self.before[0] != x:
            measured = (y - self.before[1]) / (x - self.before[0])
            slope = measured if 0.0 < measured < math.inf else 1.0
        if y > -math.inf:
            self.before = (x, y)
        following = -math.exp(x + max(min(-y / slope, _LONGEST), -_LONGEST))
        if self.low < following < self.high:
            return following
        return 2.0 * log_alpha if self.low == -math.inf else self.between()

    def refuse(self, log_alpha: float) -> None:
        """Look to the right of this log alpha only."""
        self.low = max(self.low, log_alpha)

    def between(self) -> float:
        """The geometric mean of both sides."""
        return -math.sqrt(self.low * min(self.high, 0.25 * self.low))


class _Chain:
    """The tangents along the orbit of alpha: `total`, the sum of their eps, is rounded up, and `log_intercept`, log A,
    is an upper bound: together they are a guarantee. `log_image` is the logarithm of a lower bound on h^k(alpha)."""

    def __init__(self, example: TradeOff, places: list[float | None], log_alpha: float, *, flat: bool = False) -> None:
        self.example, self.log_alpha = example, log_alpha
        self.tangents: list[tuple[float, float]] = []  # (log delta, epsilon)
        orbit = log_alpha  # h increases, so lower bounds may be passed on
        for near in places:
            # Where the chain is known to end above delta, a coin is enough of an attack from epsilon = 0 on.
            is_flat = flat and near == 0.0
            log_delta, epsilon, orbit = (
                (example.log_delta(0.0).upper, 0.0, orbit) if is_flat else example.tangent(orbit, near)
            )
            self.tangents.append((log_delta, epsilon))
        self.log_image = orbit
        self.total, self.log_intercept = _guarantee(self.tangents)

    def total_for(self, log_target: float) -> float:
        """The total where the last epsilon is changed so that A is delta; inf if that is not close by.

        Along the tangent to h^k at alpha, A + e^total alpha does not change: log A falls at the rate e^{total - log A}
        alpha. What the other epsilons would gain is of second order.
        """
        tangents, total, log_intercept = self.tangents, self.total, self.log_intercept
        for _ in range(_MOST_CHANGES):
            excess = log_intercept - log_target
            if -_CLOSE_BELOW <= excess <= 0.0:
                return total
            rate = self.log_alpha + total - log_intercept
            if not (abs(excess) <= _NEAR and rate > -_FLAT):
                break
            epsilon = tangents[-1][1] + (excess + 0.5 * _CLOSE_BELOW) * math.exp(-rate)
            if not 0.0 < epsilon < math.inf:
                break
            tangents = [*tangents[:-1], (self.example.log_delta(epsilon).upper, epsilon)]
            total, log_intercept = _guarantee(tangents)
        return math.inf


def _guarantee(tangents: list[tuple[float, float]]) -> tuple[float, float]:
    """(sum of the eps, log of the intercept A) of tangents (log delta, eps) along an orbit, both rounded up."""
    total, log_intercept = 0.0, -math.inf
    for log_delta, epsilon in tangents:
        # A <- delta + e^eps A, in logarithms.
        carried = epsilon + log_intercept
        largest = max(log_delta, carried)
        if largest > -math.inf:  # else nothing but pure privacy so far
            log_intercept = largest + math.log(math.exp(log_delta - largest) + math.exp(carried - largest))
            log_intercept += _ROUNDING * (1.0 + abs(log_intercept) + abs(epsilon))
        total += epsilon
    return total + len(tangents) * _ROUNDING * abs(total), log_intercept
