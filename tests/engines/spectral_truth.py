"""What the spectral engine computes, in ball arithmetic: for the tests of its inequalities."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np
from flint import acb, arb, fmpq

import oracle
from groupdp import pairs
from groupdp.engines.spectral import packed
from oracle.pairs import Branch, Gaussian, Round, Rounds, nothing

#: Unit roundoff.
U = 2.0**-53
PRECISION = 200

#: (shifts, probabilities) of one side: small shifts, many, far apart, none at 0, next to equal, next to nothing.
SIDES: dict[str, tuple[list[float], list[float]]] = {
    "nothing": ([0.0], [1.0]),
    "one in a hundred": ([0.0, 1.0], [0.99, 0.01]),
    "small shifts": ([0.0, 0.1, 0.3], [0.9, 0.07, 0.03]),
    "two peaks": ([0.0, 9.0], [0.7, 0.3]),
    "three peaks": ([0.0, 7.0, 15.0], [0.6, 0.3, 0.1]),
    "always present": ([0.5, 0.75, 2.0], [0.2, 0.5, 0.3]),
    "one point": ([0.625], [1.0]),
    "next to equal": ([0.75, 0.75 + 1e-9], [0.5, 0.5]),
    "rare": ([0.0, 2.0], [1.0 - 1e-12, 1e-12]),
    "tiny shift": ([0.0, 1e-6], [0.5, 0.5]),
    "rarer than doubles": ([0.0, 40.0], [1.0, 1e-300]),
}


def binomial(trials: int, rate: float, unit: float) -> tuple[list[float], list[float]]:
    """Dyadic rates: the probabilities are rounded once."""
    weights = [math.comb(trials, i) * rate**i * (1.0 - rate) ** (trials - i) for i in range(trials + 1)]
    return [i * unit for i in range(trials + 1)], weights


def unevenly(values: list[float]) -> list[float]:
    """Off by the 4 U that an even spacing may be."""
    return [value * (1.0 + (-1.0) ** i * 2.0**-51) if i > 1 else value for i, value in enumerate(values)]


#: Every way of tabulating a side (kernel/side.c), on nodes from -44 to 59.
TABULATED = SIDES | {
    "powers": binomial(4, 0.125, 0.5),
    "many powers": binomial(60, 0.03125, 0.046875),
    "powers, not quite evenly spaced": (unevenly([0.0, 1.5, 3.0, 4.5]), [0.75, 0.125, 0.0625, 0.0625]),
    "powers of rare components": ([0.0, 2.0, 4.0], [1.0, 1e-250, 1e-280]),
    "products": binomial(20, 0.25, 1.0),
    "many products": binomial(90, 0.5, 0.375),
    "products, not quite evenly spaced": (unevenly([0.0, 9.0, 18.0, 27.0]), [0.25, 0.25, 0.25, 0.25]),
    "evenly spaced, far apart": binomial(40, 0.25, 1.0),
    "evenly spaced, two heaps": ([0.0, 8.0, 16.0], [0.5, 1e-30, 0.5]),
    "wide": binomial(40, 0.5, 1.0),
    "wide and fine": binomial(160, 0.5, 0.125),
}

#: (right, left): both ways round, and both at once.
BRANCHES = [
    ("one in a hundred", "nothing"),
    ("nothing", "one in a hundred"),
    ("one in a hundred", "one in a hundred"),
    ("small shifts", "small shifts"),
    ("two peaks", "nothing"),
    ("nothing", "two peaks"),
    ("two peaks", "small shifts"),
    ("always present", "nothing"),
    ("nothing", "always present"),
    ("always present", "always present"),
    ("powers", "powers"),
    ("powers", "one point"),
]


def branch_of(right: str, left: str) -> Branch:
    """The oracle's branch: probabilities divided by their sum, shifts and weights at their binary values."""
    sides = (nothing() if name == "nothing" else oracle.Mixture(*TABULATED[name], 1) for name in (right, left))
    return Branch(*sides)


def double(value: fmpq) -> float:
    return float(arb(value).mid())


def log_double(value: fmpq) -> float:
    """log of a probability, accurate next to 1."""
    return min(float(arb(value).log().mid()), 0.0)


def side_of(mixture: oracle.Mixture) -> pairs.Side:
    law = [double(p) for p in mixture.probabilities], [log_double(p) for p in mixture.probabilities]
    return pairs.Side(np.array([double(m) for m in mixture.shifts]), (np.array(law[0]), np.array(law[1])))


def composition_of(rounds: Rounds) -> pairs.Composition:
    """The same rounds for the engines."""
    return tuple((round_of(one), times) for one, times in rounds)


def round_of(one: Round) -> pairs.Round:
    branches = []
    for _, branch in one.coin:
        if isinstance(branch, Gaussian):
            mu = float(arb(branch.square).sqrt().mid())
            branches.append(pairs.Branch(pairs.Side.point(mu), pairs.ZERO))
        else:
            branches.append(pairs.Branch(side_of(branch.right), side_of(branch.left)))
    return pairs.Round(branches, [log_double(w) for w, _ in one.coin])


def kernel_round(right: str, left: str, times: int = 1) -> list[object]:
    """One branch as the kernel reads it."""
    return packed(composition_of([(Round([(1, branch_of(right, left))]), times)]))


def true_log(side: oracle.Mixture, v: float | arb) -> arb:
    """log R(v) of one side."""
    x = arb(v)
    terms = [
        arb(p) * (arb(m) * x - arb(m) ** 2 / 2).exp() for m, p in zip(side.shifts, side.probabilities, strict=True)
    ]
    return sum(terms, arb(0)).log()


def true_mean(side: oracle.Mixture, v: float | arb) -> arb:
    """The posterior mean of the shift."""
    x = arb(v)
    terms = [
        arb(p) * (arb(m) * x - arb(m) ** 2 / 2).exp() for m, p in zip(side.shifts, side.probabilities, strict=True)
    ]
    first = sum((term * arb(m) for term, m in zip(terms, side.shifts, strict=True)), arb(0))
    return first / sum(terms, arb(0))


def true_moment(branch: Branch, c: float, s: float, thinning: tuple[float, float] | None = None) -> acb:
    """E[chi A^{1+c+is} B^{-c-is}] by a trapezoid rule so fine, and so wide, that 30 digits do not depend on it; for
    c = -1 that is E[chi B]."""
    span = max(np.ptp(branch.right.float_shifts), np.ptp(branch.left.float_shifts))
    strip = 2.0 / max(span, 1.0)  # cos(span strip / 2) > 0.5
    nats = 80.0 + strip * strip / 2 + abs(s) * branch.reach * strip + 0.7 * abs(c)
    if thinning is not None:
        strip = min(strip, 3.0 * thinning[1])
        nats += strip * strip / (2.0 * thinning[1] ** 2)
    step = 2.0 ** math.floor(
        math.log2(2.0 * math.pi * strip / nats)
    )  # a power of two: logarithms are kept for the next
    low, high = -14.0 - branch.y_max, (1.0 + max(c, 0.0)) * branch.reach + 14.0
    if thinning is not None:
        high = min(high, thinning[0] + 12.0 * thinning[1] + 2.0)
    z, total = acb(c, s), acb(0)
    for n in range(math.floor(low / step), math.ceil(high / step) + 1):
        u = arb(step) * n
        log_a, log_b = branch.right.loss(step, n), branch.left.loss(step, -n)
        value = ((1 + z) * log_a - z * log_b - u * u / 2).exp()
        if thinning is not None:
            value *= ((u - arb(thinning[0])) / arb(thinning[1]) / arb(2).sqrt()).erfc() / 2
        total += value
    return total * arb(step) / (2 * arb.pi()).sqrt()


def round_moment(one: Round, c: float, s: float = 0.0) -> acb:
    """G(c + i s) of a coin."""
    total = acb(0)
    for weight, branch in one.coin:
        if isinstance(branch, Gaussian):
            z = acb(c, s)
            total += arb(weight) * (z * (z + 1) * arb(branch.square) / 2).exp()
        else:
            total += arb(weight) * true_moment(branch, c, s)
    return total


def shortened(value: float) -> float:
    """Rounded down to 20 significant bits, as the kernel's steps are: nodes are then exact."""
    mantissa, exponent = math.frexp(value)
    return math.ldexp(math.floor(math.ldexp(mantissa, 20)), exponent - 20)


def assert_within_four_units(exact: Callable[[arb], arb], arguments: Iterable[float], values: Iterable[float]) -> None:
    for argument, value in zip(arguments, values, strict=True):
        truth = exact(arb(argument))
        assert abs(truth - arb(value)) <= 8 * U * abs(truth)


def enclosed(bounds: Sequence[float], truth: arb) -> bool:
    """Whether the truth is within (lower, upper), its own radius apart."""
    return bool(arb(bounds[0]) <= truth.upper()) and bool(truth.lower() <= arb(bounds[1]))
