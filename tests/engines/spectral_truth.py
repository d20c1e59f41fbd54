"""What both spectral engines compute, in ball arithmetic: for the tests of their inequalities."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from flint import acb, arb

from groupdp.engines.spectral.thinning import Thinning
from oracle import Mixture

#: Unit roundoff.
U = 2.0**-53

#: (sensitivities, probabilities, noise): one small shift, many, far apart, none at 0, next to equal, next to nothing.
MIXTURES = {
    "one in a hundred": ([0.0, 1.0], [0.99, 0.01], 1.0),
    "small shifts": ([0.0, 0.1, 0.3], [0.9, 0.07, 0.03], 1.0),
    "two peaks": ([0.0, 9.0], [0.7, 0.3], 1.0),
    "three peaks": ([0.0, 7.0, 15.0], [0.6, 0.3, 0.1], 1.0),
    "always present": ([1.0, 1.5, 4.0], [0.2, 0.5, 0.3], 2.0),
    "next to equal": ([2.0, 2.0 + 1e-9], [0.5, 0.5], 3.0),
    "rare": ([0.0, 3.0], [1.0 - 1e-12, 1e-12], 1.5),
    "tiny shift": ([0.0, 1e-6], [0.5, 0.5], 1.0),
    "rarer than doubles": ([0.0, 40.0], [1.0, 1e-300], 1.0),
}
PRECISION = 200

#: Name: (function, where it is compared).
ELEMENTARY: dict[str, tuple[Callable[[arb], arb], tuple[float, float]]] = {
    "exp": (arb.exp, (-700.0, 700.0)),
    "expm1": (arb.expm1, (-40.0, 40.0)),
    "expm1 near 0": (arb.expm1, (-1e-3, 1e-3)),
    "log": (arb.log, (1e-3, 1e3)),
    "log next to 1": (arb.log, (0.99, 1.01)),
    "log1p": (arb.log1p, (-0.5, 0.5)),
    "sin": (arb.sin, (-1e3, 1e3)),
    "cos": (arb.cos, (-1e3, 1e3)),
    "sin near 0": (arb.sin, (-1e-3, 1e-3)),
}


def assert_within_four_units(exact: Callable[[arb], arb], arguments: Iterable[float], values: Iterable[float]) -> None:
    for argument, value in zip(arguments, values, strict=True):
        truth = exact(arb(argument))
        assert abs(truth - arb(value)) <= 8 * U * abs(truth)


def true_psi(mixture: Mixture, u: float | arb) -> arb:
    x = arb(u)
    terms = [
        arb(p) * (arb(m) * x - arb(m) ** 2 / 2).exp()
        for m, p in zip(mixture.shifts, mixture.probabilities, strict=True)
    ]
    return sum(terms, arb(0)).log()


def true_moment(mixture: Mixture, a: float, s: float, thinning: Thinning | None = None) -> acb:
    """G(a + i s) by a trapezoid rule so fine, and so wide, that 30 digits do not depend on it."""
    spread = float(mixture.float_shifts[-1] - mixture.float_shifts[0]) + 1e-300
    step = min(0.02, 0.08 / (1.0 + abs(a) + abs(s) * float(mixture.float_shifts[-1])), 0.1 / spread)
    if thinning is not None:
        step = min(step, thinning.width / 6.0)
    low = min(a, 0.0) * float(mixture.float_shifts[-1]) - 14.0
    high = max(a, 0.0) * float(mixture.float_shifts[-1]) + 14.0
    first, last = math.floor(low / step), math.ceil(high / step)
    w, total = acb(a, s), acb(0)
    for n in range(first, last + 1):
        u = arb(step) * n
        value = (w * true_psi(mixture, u) - u * u / 2).exp()
        if thinning is not None:
            value *= ((u - arb(thinning.edge)) / arb(thinning.width) / arb(2).sqrt()).erfc() / 2
        total += value
    return total * arb(step) / (2 * arb.pi()).sqrt()
