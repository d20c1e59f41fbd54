"""One place of an allocation, and two places, by integrals of their own: in balls, and of closed forms."""

from __future__ import annotations

import itertools
import math

import numpy as np
from flint import acb, arb
from mpmath import mp, mpf

from groupdp.engines.spectral import packed
from groupdp.pairs import Allocation, AllocationRound

ROOT_2PI = math.sqrt(2.0 * math.pi)


def composition(places: int, shift: float, reverse: bool = False):
    return ((AllocationRound((((Allocation(places, shift, 0.0), 1),),), (0.0,), reverse), 1),)


def of(places: int, shift: float, reverse: bool = False):
    return packed(composition(places, shift, reverse))


def is_new(found) -> bool:
    """Whether the transform of X itself answered: it counts one node for each step of its contour."""
    counts = found.provenance.evaluations
    return counts["nodes"] == counts["contour steps"] and counts["evaluations of delta"] == 1


def integral(function, ends) -> acb:
    return sum((acb.integral(function, a, b) for a, b in itertools.pairwise(ends)), acb(0))


def moment_of_place(
    lam: complex, places: int, shift: float, line: float = 0.0, minus: int = 0, far: float = 14.0
) -> acb:
    """E[e^{-lam L / M}] - minus on the line Im Z = line, in balls."""

    def integrand(u, _):
        z = u + acb(0, line)
        x = acb(lam) / places * (shift * z - arb(shift) ** 2 / 2).exp()
        return (-z * z / 2).exp() * ((-x).exp() - minus) / (2 * arb.pi()).sqrt()

    return integral(integrand, np.linspace(-far, shift + far, int(2 * far)))


def put(k: mpf, s: mpf) -> mpf:
    """E[(k - L)_+]."""
    if k <= 0:
        return mpf(0)
    z = (mp.log(k) + s * s / 2) / s
    return k * mp.ncdf(z) - mp.ncdf(z - s)


def call(k: mpf, s: mpf, cut: float = math.inf) -> mpf:
    """E[(L - k)_+; Z <= cut]."""
    z = mpf(-50) if k <= 0 else (mp.log(k) + s * s / 2) / s
    if math.isinf(cut):
        return mp.ncdf(s - z) - k * mp.ncdf(-z)
    if z >= cut:
        return mpf(0)
    return (mp.ncdf(s - z) - mp.ncdf(s - cut)) - k * (mp.ncdf(-z) - mp.ncdf(-mpf(cut)))


def over_one(function, s: float, k: float, last: float = 14.0) -> mpf:
    """E[function(L); Z <= last], with a kink where L is k."""

    def integrand(z):
        return mp.npdf(z) * function(mp.exp(s * z - mpf(s) ** 2 / 2))

    kink = (math.log(k) + s * s / 2) / s if k > 0 else -20.0
    ends = sorted({-14.0, *(x for x in (kink - 4, kink - 1, kink, s, kink / 2) if -14.0 < x < last), float(last)})
    return mp.quad(integrand, ends)


def two_places(shift: float, value: float, reverse: bool, cut: float = math.inf) -> mpf:
    """E[(X - value)_+; no place beyond the cut] of two places, or E[(value - X)_+] reversed."""
    s, k = mpf(shift), mpf(2 * value)
    if reverse:
        return over_one(lambda x: put(k - x, s) / 2, shift, 2 * value) if value > 0 else mpf(0)
    last = min(cut, 14.0 + shift)
    return over_one(lambda x: call(k - x, s, cut) / 2, shift, 2 * value, last)


def cut_place(theta: complex, places: int, shift: float, cut: float) -> acb:
    """E[e^{theta L / M}; Z <= cut], in balls."""

    def integrand(z, _):
        x = (shift * z - arb(shift) ** 2 / 2).exp() / places
        return (-z * z / 2 + acb(theta) * x).exp() / (2 * arb.pi()).sqrt()

    return integral(integrand, np.linspace(-14.0, cut, 60))


def short_of_two(a: float, shift: float, cut: float) -> mpf:
    """E[(a - X)_+; some place beyond the cut] of two places."""
    s, top = mpf(shift), mp.exp(mpf(shift) * cut - mpf(shift) ** 2 / 2)

    def kept(x):
        k = 2 * mpf(a) - x
        return (put(k, s) if k <= top else k * mp.ncdf(mpf(cut)) - mp.ncdf(mpf(cut) - s)) / 2

    whole = over_one(lambda x: put(2 * mpf(a) - x, s) / 2, shift, 2 * a)
    return whole - over_one(kept, shift, float(2 * a - top), cut)


def on_the_axis(rho: float, shift: float, far: float = 14.0) -> acb:
    """phi(M rho e^{i pi}), upper side, on a line in the lower half plane of Z."""
    return moment_of_place(-rho, 1, shift, -(math.pi * 0.8) / shift, far=far)
