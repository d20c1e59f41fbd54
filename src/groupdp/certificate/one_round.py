"""One round has a closed form (C-4)."""

from __future__ import annotations

from typing import Any

from flint import arb, arb_poly, ctx

from groupdp.certificate.laws import Gaussians, Law, Mixtures, Profile
from groupdp.certificate.reading import Undecided
from groupdp.certificate.tails import Thresholds


def normal(x: arb) -> arb:
    """Phi(x)."""
    return (-x / arb(2).sqrt()).erfc() / 2


def one_round(one: Mixtures | Gaussians | Profile, epsilon: Any) -> tuple[arb, arb]:
    """C-4: (lower, upper) of delta(epsilon) after one round: every optimal event is a half-line u > threshold."""
    level, total = arb(epsilon).exp(), arb(0)
    if isinstance(one, Gaussians):
        for p, square in one.coin:
            mu = arb(square).sqrt()
            total += p * (normal(mu / 2 - epsilon / mu) - level * normal(-mu / 2 - epsilon / mu))
        return total.lower(), (total + one.missing).upper()
    if isinstance(one, Profile):
        return one_envelope(one, arb(epsilon))
    unit = arb(one.unit)
    for right, left in one.branches:
        a, b = polynomial(right, unit), polynomial(left, unit)
        if a.degree() < 1 and (b.degree() < 1 or level * b[0] >= a[0]):
            continue  # the loss never exceeds log(a_0 / b_0)
        if b.degree() < 1 and a[0] >= level * b[0]:  # and here it is never below
            total += sum((arb(p) for p in right), arb(0)) - level * left[0]
            continue
        ends = [arb(-1), arb(1)]
        for side, sign in enumerate((-1, 1)):
            while not sign * gap(a, b, level, ends[side], unit) > 0:
                ends[side] *= 2
                if ends[side].abs_upper() > 1e15:
                    raise Undecided("the threshold of one round could not be enclosed")
        for _ in range(4 * ctx.prec):
            middle = ((ends[0] + ends[1]) / 2).mid()
            value = gap(a, b, level, middle, unit)
            if not (value < 0 or value > 0):  # the middle is the threshold itself, or all but
                middle = ((2 * ends[0] + ends[1]) / 3).mid()
                value = gap(a, b, level, middle, unit)
            if not (value < 0 or value > 0):
                break
            ends[0 if value < 0 else 1] = middle
        u = ends[0].union(ends[1])
        total += sum((p * normal(i * unit - u) for i, p in enumerate(right)), arb(0))
        total -= level * sum((p * normal(-j * unit - u) for j, p in enumerate(left)), arb(0))
    return total.lower(), (total + one.missing).upper()


def gap(a: arb_poly, b: arb_poly, level: arb, u: arb, unit: arb) -> arb:
    """A(u) - e^epsilon B(u), which changes its sign once, from - to +."""
    t = (u * unit).exp()
    return a(t) - level * b(1 / t)


def polynomial(law: Law, unit: arb) -> arb_poly:
    """sum_i p_i e^{-(i unit)^2 / 2} t^i: the density over phi(u), at t = e^{unit u} (P) or e^{-unit u} (Q)."""
    return arb_poly([p * (-((i * unit) ** 2) / 2).exp() for i, p in enumerate(law)])


def one_envelope(one: Profile, epsilon: arb) -> tuple[arb, arb]:
    """R(e^epsilon) = P(L > epsilon) - e^epsilon Q(L > epsilon) of the envelope (C-18), mirrored below zero."""
    curve = Thresholds(one, len(one.law))
    t = curve.start if epsilon.is_zero() else curve.threshold(abs(epsilon), curve.start - 1)
    p, q = curve.tails(abs(epsilon), t)
    p, q = (1 - q, 1 - p) if epsilon < 0 else (p, q)
    total = p - epsilon.exp() * q
    return total.lower(), total.upper()
